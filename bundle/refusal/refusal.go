// Package refusal defines the error for a check that refuses a bundle, report, root of trust or air-gap file. The error
// has a stable reason for programs and a detail for people.
package refusal

import (
	"errors"
	"fmt"
	"slices"
)

// Reason identifies the check that refused a bundle or a report. Conditions and metrics contain it.
type Reason string

// Reasons for refusing an artifact, such as a bundle or report, in the order of the checks.
const (
	TooLarge      Reason = "TooLarge"      // the artifact has more bytes, entries or levels than allowed
	MediaType     Reason = "MediaType"     // the artifact has a wrong media type
	Malformed     Reason = "Malformed"     // the artifact cannot be decoded, or has invalid fields
	Unsigned      Reason = "Unsigned"      // the artifact has no attestation
	UnknownKey    Reason = "UnknownKey"    // the artifact is signed with a key that the root of trust does not list
	BadSignature  Reason = "BadSignature"  // the artifact has an invalid signature
	PredicateType Reason = "PredicateType" // the artifact contains a statement with a wrong predicate type
	WrongRuntime  Reason = "WrongRuntime"  // the artifact is for another runtime
	WrongCluster  Reason = "WrongCluster"  // the artifact is for another cluster with the same runtime ID
	WrongEpoch    Reason = "WrongEpoch"    // the artifact's epoch differs from the root of trust's epoch
	Expired       Reason = "Expired"       // the artifact's validity period has ended
	NotYetIssued  Reason = "NotYetIssued"  // the artifact's issue time is too far in the future
	Rollback      Reason = "Rollback"      // the artifact is older than the last accepted bundle or report
	Equivocation  Reason = "Equivocation"  // the artifact has the sequence of an accepted bundle, but different content
	Downgrade     Reason = "Downgrade"     // the artifact downgrades a module, but the statement does not allow it
	WrongDigest   Reason = "WrongDigest"   // the artifact has content that does not match the signed digest
	ForeignKey    Reason = "ForeignKey"    // the report is not signed with the runtime's key
	BadRoot       Reason = "BadRoot"       // the document is not a valid next root of trust version
	RootExpired   Reason = "RootExpired"   // the root of trust has expired
	Revoked       Reason = "Revoked"       // the artifact is signed with a revoked key
	NotReleased   Reason = "NotReleased"   // the artifact contains a component that is unreleased or too old
	Incomplete    Reason = "Incomplete"    // the air-gap file lacks data that the target needs
	// UnsupportedFeature means that the bundle requires a feature that the agent does not support.
	UnsupportedFeature Reason = "UnsupportedFeature"
	WrongKyma          Reason = "WrongKyma"   // the artifact comes from a Kyma other than the runtime's
	NotEnrolled        Reason = "NotEnrolled" // the report is signed with a key that is not enrolled
)

// Reasons lists all reasons, in the order of the checks.
var Reasons = []Reason{
	TooLarge, MediaType, Malformed, Unsigned, UnknownKey, BadSignature, PredicateType, WrongRuntime, WrongCluster,
	WrongEpoch, Expired, NotYetIssued, Rollback,
	Equivocation, Downgrade, WrongDigest, ForeignKey, BadRoot, RootExpired, Revoked, NotReleased, Incomplete,
	UnsupportedFeature, NotEnrolled, WrongKyma,
}

// Other replaces a reason that this version of kyma-pull does not know.
const Other Reason = "Other"

// Known returns r if this version of kyma-pull knows the reason, and otherwise Other.
func Known(r Reason) Reason {
	if slices.Contains(Reasons, r) {
		return r
	}
	return Other
}

// AboutRoot reports whether the refused artifact is the root of trust and not a bundle.
func (r Reason) AboutRoot() bool { return r == BadRoot }

// MayPassNewerRoot reports whether the reader could accept the same bundle after an update to its root of trust.
func (r Reason) MayPassNewerRoot() bool {
	switch r {
	case UnknownKey, WrongEpoch, RootExpired, NotReleased:
		return true
	}
	return false
}

// MayPassLater reports whether an importer could accept the same air-gap file later, for example after an update to its
// root of trust.
func (r Reason) MayPassLater() bool {
	return r == Incomplete || r == NotYetIssued || r.MayPassNewerRoot()
}

// DependsOnClock reports whether an importer with an earlier clock could accept the same air-gap file.
func (r Reason) DependsOnClock() bool { return r == Expired || r == RootExpired }

// Error is the error for a refused bundle, report, root of trust or air-gap file.
type Error struct {
	Reason Reason
	// Detail describes the actual and the expected value.
	Detail string
	// Cause is the error that Unwrap returns, or nil.
	Cause error
}

func (r *Error) Error() string { return fmt.Sprintf("refused (%s): %s", r.Reason, r.Detail) }

func (r *Error) Unwrap() error { return r.Cause }

// Of returns the *Error that err wraps, or nil.
func Of(err error) *Error {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return nil
}

// New returns an Error with a formatted detail. If the format wraps an error with %w, this error becomes the Cause.
func New(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: reason, Detail: err.Error(), Cause: errors.Unwrap(err)}
}
