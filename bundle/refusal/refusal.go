// Package refusal defines errors of failed checks: a stable reason for programs, and a detail for people.
package refusal

import (
	"errors"
	"fmt"
	"slices"
)

// Reason is the check that refused a bundle or a report. Conditions and metrics contain it.
type Reason string

// Reasons, in the order of the checks.
const (
	TooLarge      Reason = "TooLarge"      // more bytes, entries or levels than allowed
	MediaType     Reason = "MediaType"     // inconsistent media types
	Malformed     Reason = "Malformed"     // cannot be decoded, or has invalid fields
	Unsigned      Reason = "Unsigned"      // without an attestation
	UnknownKey    Reason = "UnknownKey"    // signed by a key that the root of trust does not list
	BadSignature  Reason = "BadSignature"  // the signature is invalid
	PredicateType Reason = "PredicateType" // a statement of another type
	WrongRuntime  Reason = "WrongRuntime"  // for another runtime
	WrongCluster  Reason = "WrongCluster"  // for another cluster with the same runtime ID
	WrongEpoch    Reason = "WrongEpoch"    // the epoch differs from the root's epoch
	Expired       Reason = "Expired"       // the validity period has ended
	NotYetIssued  Reason = "NotYetIssued"  // issued too far in the future
	Rollback      Reason = "Rollback"      // older than the last accepted bundle or report
	Equivocation  Reason = "Equivocation"  // same sequence as an accepted bundle, but different content
	Downgrade     Reason = "Downgrade"     // downgrades a module without listing the rollback
	WrongDigest   Reason = "WrongDigest"   // the content does not match the signed digest
	ForeignKey    Reason = "ForeignKey"    // a report signed by another key than the runtime's
	BadRoot       Reason = "BadRoot"       // not a valid next version of the root of trust
	RootExpired   Reason = "RootExpired"   // the root of trust has expired
	Revoked       Reason = "Revoked"       // signed by a revoked key
	NotReleased   Reason = "NotReleased"   // a component without a release signature, or below the minimum version
	Incomplete    Reason = "Incomplete"    // an air-gap file omits data that the target lacks
	// UnsupportedFeature means that the reader does not support a required feature.
	UnsupportedFeature Reason = "UnsupportedFeature"
	WrongKyma          Reason = "WrongKyma"   // from another Kyma than the runtime's owner
	NotEnrolled        Reason = "NotEnrolled" // a report signed by an unknown key
)

// Reasons lists all reasons, in the order of the checks.
var Reasons = []Reason{
	TooLarge, MediaType, Malformed, Unsigned, UnknownKey, BadSignature, PredicateType, WrongRuntime, WrongCluster,
	WrongEpoch, Expired, NotYetIssued, Rollback,
	Equivocation, Downgrade, WrongDigest, ForeignKey, BadRoot, RootExpired, Revoked, NotReleased, Incomplete,
	UnsupportedFeature, NotEnrolled, WrongKyma,
}

// Other replaces a reason that this version does not know.
const Other Reason = "Other"

// Known returns the reason if this version knows it, and Other for any other value.
func Known(r Reason) Reason {
	if slices.Contains(Reasons, r) {
		return r
	}
	return Other
}

// AboutRoot reports whether the root of trust, not the bundle, was refused.
func (r Reason) AboutRoot() bool { return r == BadRoot }

// MayFollowFromRoot reports whether a newer root of trust could make the same bundle acceptable.
func (r Reason) MayFollowFromRoot() bool {
	switch r {
	case UnknownKey, WrongEpoch, RootExpired, NotReleased:
		return true
	}
	return false
}

// MayEndLater reports whether the same air-gap file can be accepted later, for example with a newer root of trust.
func (r Reason) MayEndLater() bool {
	return r == Incomplete || r == NotYetIssued || r.MayFollowFromRoot()
}

// Error means that a bundle or report was refused.
type Error struct {
	Reason Reason
	// Detail describes the actual and the expected value.
	Detail string
	// Cause is the wrapped error, or nil.
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

// New returns a refusal with a formatted detail. An error wrapped by %w becomes its cause.
func New(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: reason, Detail: err.Error(), Cause: errors.Unwrap(err)}
}
