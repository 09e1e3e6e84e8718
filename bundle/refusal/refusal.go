// Package refusal is how a check says no: a stable reason for machines, and a detail for people.
package refusal

import (
	"errors"
	"fmt"
	"slices"
)

// Reason names the check that refused a bundle or a report. It is the reason of a condition and the label of a metric,
// so there are few and they are stable.
type Reason string

// Reasons, in the order in which the checks run.
const (
	TooLarge      Reason = "TooLarge"      // more bytes, entries or depth than the limits allow
	MediaType     Reason = "MediaType"     // response, descriptor and body do not say the same thing
	Malformed     Reason = "Malformed"     // not the document it claims to be
	Unsigned      Reason = "Unsigned"      // no attestation
	UnknownKey    Reason = "UnknownKey"    // signed by a key that the root does not list
	BadSignature  Reason = "BadSignature"  // the key is known, the signature is not its
	PredicateType Reason = "PredicateType" // a valid statement about something else
	WrongRuntime  Reason = "WrongRuntime"  // meant for another runtime
	WrongCluster  Reason = "WrongCluster"  // meant for another cluster of the same runtime id
	WrongEpoch    Reason = "WrongEpoch"    // of another epoch than the root
	Expired       Reason = "Expired"       // its time is over
	NotYetIssued  Reason = "NotYetIssued"  // issued further in the future than clocks may differ
	Rollback      Reason = "Rollback"      // older than what was accepted before
	Equivocation  Reason = "Equivocation"  // same sequence, other content
	Downgrade     Reason = "Downgrade"     // an older version of a module, and no rollback said so
	WrongDigest   Reason = "WrongDigest"   // the content is not what was signed
	ForeignKey    Reason = "ForeignKey"    // a report signed by a key that is not the runtime's
	BadRoot       Reason = "BadRoot"       // a root of trust that does not follow the one before
	RootExpired   Reason = "RootExpired"   // the root of trust is over, and there is no newer one
	Revoked       Reason = "Revoked"       // signed by a key that was taken out for good
	NotReleased   Reason = "NotReleased"   // a component that its makers did not release, or that is too old
	Incomplete    Reason = "Incomplete"    // a file that was carried leaves out what is not there
	// UnsupportedFeature: the statement needs a feature that is not known here.
	UnsupportedFeature Reason = "UnsupportedFeature"
	WrongKyma          Reason = "WrongKyma"   // of another Kyma than the one that the runtime enrolled under
	NotEnrolled        Reason = "NotEnrolled" // a report of a runtime whose key is not known and not proven
)

// Reasons are all of them, in the order in which the checks run.
var Reasons = []Reason{
	TooLarge, MediaType, Malformed, Unsigned, UnknownKey, BadSignature, PredicateType, WrongRuntime, WrongCluster, WrongEpoch, Expired, NotYetIssued, Rollback,
	Equivocation, Downgrade, WrongDigest, ForeignKey, BadRoot, RootExpired, Revoked, NotReleased, Incomplete,
	UnsupportedFeature, NotEnrolled, WrongKyma,
}

// Other stands for a reason that a reader does not know: a runtime can report any text, or one from a later version.
const Other Reason = "Other"

// Known returns the reason if this version knows it, and Other for any other value.
func Known(r Reason) Reason {
	if slices.Contains(Reasons, r) {
		return r
	}
	return Other
}

// AboutRoot tells refusals of a root of trust from those of a bundle.
func (r Reason) AboutRoot() bool { return r == BadRoot }

// MayFollowFromRoot reports whether a newer root of trust could make the same bundle acceptable.
func (r Reason) MayFollowFromRoot() bool {
	switch r {
	case UnknownKey, WrongEpoch, RootExpired, NotReleased:
		return true
	}
	return false
}

// Error is a bundle or report that was read and judged unacceptable. Any other error means that it could not be read
// and says nothing about it.
type Error struct {
	Reason Reason
	// Detail says what was found and what was expected, without an object's name: the caller knows which it asked for.
	Detail string
	// Cause is the error behind the refusal, nil for none; errors.Is and errors.As find it.
	Cause error
}

func (r *Error) Error() string { return fmt.Sprintf("refused (%s): %s", r.Reason, r.Detail) }

// Unwrap returns the cause.
func (r *Error) Unwrap() error { return r.Cause }

// Of returns the refusal inside err, or nil when err is of another kind.
func Of(err error) *Error {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return nil
}

// New returns a refusal whose detail is formatted as by fmt.Errorf; an error that %w wraps becomes its cause.
func New(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: reason, Detail: err.Error(), Cause: errors.Unwrap(err)}
}
