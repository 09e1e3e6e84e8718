package bundle

import (
	"errors"
	"fmt"
)

// Reason names the check that refused a bundle or a report. It is the reason of a condition and the label of a metric,
// so there are few and they are stable.
type Reason string

// Reasons, in the order in which the checks run.
const (
	ReasonTooLarge      Reason = "TooLarge"      // more bytes, entries or depth than the limits allow
	ReasonMediaType     Reason = "MediaType"     // response, descriptor and body do not say the same thing
	ReasonMalformed     Reason = "Malformed"     // not the document it claims to be
	ReasonUnsigned      Reason = "Unsigned"      // no attestation
	ReasonUnknownKey    Reason = "UnknownKey"    // signed by a key that the root does not list
	ReasonBadSignature  Reason = "BadSignature"  // the key is known, the signature is not its
	ReasonPredicateType Reason = "PredicateType" // a valid statement about something else
	ReasonWrongRuntime  Reason = "WrongRuntime"  // meant for another runtime
	ReasonWrongCluster  Reason = "WrongCluster"  // meant for another cluster of the same runtime id
	ReasonWrongEpoch    Reason = "WrongEpoch"    // of another epoch than the root
	ReasonExpired       Reason = "Expired"       // its time is over
	ReasonNotYetIssued  Reason = "NotYetIssued"  // issued further in the future than clocks may differ
	ReasonRollback      Reason = "Rollback"      // older than what was accepted before
	ReasonEquivocation  Reason = "Equivocation"  // same sequence, other content
	ReasonWrongDigest   Reason = "WrongDigest"   // the content is not what was signed
	ReasonForeignKey    Reason = "ForeignKey"    // a report signed by a key that is not the runtime's
	ReasonBadRoot       Reason = "BadRoot"       // a root of trust that does not follow the one before
	ReasonRootExpired   Reason = "RootExpired"   // the root of trust is over, and there is no newer one
	ReasonRevoked       Reason = "Revoked"       // signed by a key that was taken out for good
	ReasonNotReleased   Reason = "NotReleased"   // a component that its makers did not release, or that is too old
	ReasonIncomplete    Reason = "Incomplete"    // a file that was carried leaves out what is not there
	ReasonNotEnrolled   Reason = "NotEnrolled"   // a report of a runtime whose key is not known and not proven
)

// AboutRoot tells refusals of a root of trust from those of a bundle.
func (r Reason) AboutRoot() bool { return r == ReasonBadRoot }

// MayFollowFromRoot tells whether a newer root of trust could make the same bundle acceptable.
func (r Reason) MayFollowFromRoot() bool {
	switch r {
	case ReasonUnknownKey, ReasonWrongEpoch, ReasonRootExpired, ReasonNotReleased:
		return true
	}
	return false
}

// Refusal is a bundle or report that was read and judged unacceptable. Any other error means that it could not be read
// and says nothing about it.
type Refusal struct {
	Reason Reason
	// Detail says what was found and what was expected, without an object's name: the caller knows which it asked for.
	Detail string
}

func (r *Refusal) Error() string { return fmt.Sprintf("refused (%s): %s", r.Reason, r.Detail) }

// RefusalOf gives the refusal inside err, or nil when err is of another kind.
func RefusalOf(err error) *Refusal {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	return nil
}

func refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
