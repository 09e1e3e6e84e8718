// Package refusal defines the result of a failed check: a stable reason for machines, and a detail for people.
package refusal

import (
	"errors"
	"fmt"
	"slices"
)

// Reason identifies the check that refused a bundle or a report. It is the reason of a condition and the label of a
// metric, so the set is small and stable.
type Reason string

// Reasons, in the order of the checks.
const (
	TooLarge      Reason = "TooLarge"      // more bytes, entries or depth than the limits allow
	MediaType     Reason = "MediaType"     // the media types of response, descriptor and body are inconsistent
	Malformed     Reason = "Malformed"     // the document cannot be decoded or has invalid fields
	Unsigned      Reason = "Unsigned"      // the attestation is missing
	UnknownKey    Reason = "UnknownKey"    // signed by a key that the root does not list
	BadSignature  Reason = "BadSignature"  // the key is known, but the signature does not match
	PredicateType Reason = "PredicateType" // a valid statement of another type
	WrongRuntime  Reason = "WrongRuntime"  // intended for another runtime
	WrongCluster  Reason = "WrongCluster"  // intended for another cluster with the same runtime ID
	WrongEpoch    Reason = "WrongEpoch"    // the epoch differs from the root's epoch
	Expired       Reason = "Expired"       // the validity period has ended
	NotYetIssued  Reason = "NotYetIssued"  // issued further in the future than clocks may differ
	Rollback      Reason = "Rollback"      // older than the last accepted bundle or report
	Equivocation  Reason = "Equivocation"  // an accepted bundle has the same sequence and other content
	Downgrade     Reason = "Downgrade"     // the bundle downgrades a module without listing the rollback
	WrongDigest   Reason = "WrongDigest"   // the content does not match the signed digest
	ForeignKey    Reason = "ForeignKey"    // a report that is not signed by the runtime's key
	BadRoot       Reason = "BadRoot"       // a root of trust that is not a valid successor
	RootExpired   Reason = "RootExpired"   // the root of trust has expired and has no successor
	Revoked       Reason = "Revoked"       // signed by a revoked key
	NotReleased   Reason = "NotReleased"   // a component without a release signature, or below the minimum version
	Incomplete    Reason = "Incomplete"    // a carried file omits data that the target lacks
	// UnsupportedFeature: the statement needs a feature that this version does not support.
	UnsupportedFeature Reason = "UnsupportedFeature"
	WrongKyma          Reason = "WrongKyma"   // from a Kyma other than the runtime's owner
	NotEnrolled        Reason = "NotEnrolled" // a report of a runtime whose key is unknown and not certified
)

// Reasons lists all reasons, in the order of the checks.
var Reasons = []Reason{
	TooLarge, MediaType, Malformed, Unsigned, UnknownKey, BadSignature, PredicateType, WrongRuntime, WrongCluster,
	WrongEpoch, Expired, NotYetIssued, Rollback,
	Equivocation, Downgrade, WrongDigest, ForeignKey, BadRoot, RootExpired, Revoked, NotReleased, Incomplete,
	UnsupportedFeature, NotEnrolled, WrongKyma,
}

// Other replaces an unknown reason. A runtime can report any text, or a reason of a later version.
const Other Reason = "Other"

// Known returns the reason if this version knows it, and Other for any other value.
func Known(r Reason) Reason {
	if slices.Contains(Reasons, r) {
		return r
	}
	return Other
}

// AboutRoot reports whether the reason is about a root of trust rather than a bundle.
func (r Reason) AboutRoot() bool { return r == BadRoot }

// MayFollowFromRoot reports whether a newer root of trust could make the same bundle acceptable.
func (r Reason) MayFollowFromRoot() bool {
	switch r {
	case UnknownKey, WrongEpoch, RootExpired, NotReleased:
		return true
	}
	return false
}

// MayEndLater reports whether a carried file can be accepted without a change of the file: with another file, a newer
// root of trust, or a corrected clock.
func (r Reason) MayEndLater() bool {
	return r == Incomplete || r == NotYetIssued || r.MayFollowFromRoot()
}

// Error means that a bundle or report was read and refused. Any other error means that it could not be read.
type Error struct {
	Reason Reason
	// Detail describes the actual and the expected value. The caller adds the name of the object.
	Detail string
	// Cause is the wrapped error, or nil. errors.Is and errors.As find it.
	Cause error
}

func (r *Error) Error() string { return fmt.Sprintf("refused (%s): %s", r.Reason, r.Detail) }

func (r *Error) Unwrap() error { return r.Cause }

// Of returns the refusal inside err, or nil.
func Of(err error) *Error {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return nil
}

// New returns a refusal with a detail formatted like fmt.Errorf. An error wrapped by %w becomes its cause.
func New(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: reason, Detail: err.Error(), Cause: errors.Unwrap(err)}
}
