package v1beta2

// Reasons of Events that are no reasons of conditions. Those with which somebody is to be called are of type Warning.
const (
	// ReasonRuntimeSilent is of a Kyma whose runtime was not heard for longer than allowed.
	ReasonRuntimeSilent = "RuntimeSilent"
	// ReasonRuntimeHeard is of a Kyma whose runtime was silent and reports again.
	ReasonRuntimeHeard = "RuntimeHeard"
	// ReasonRootExpires is of the publisher's Lease: the root of trust expires soon, or has expired.
	ReasonRootExpires = "RootExpires"
)
