package fleet

import (
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// phrase tells a situation by words of a message, for what a status says in words only. The words are those of the packages that write them:
// resolve, catalog, component, plan, publish and ingest here, and the agent's installer; tests hold them.
type phrase struct {
	words     string
	situation Situation
}

// tell returns the situation of the first phrase that a message has, else another one.
func tell(message string, phrases []phrase, otherwise Situation) Situation {
	for i := range phrases {
		if strings.Contains(message, phrases[i].words) {
			return phrases[i].situation
		}
	}
	return otherwise
}

// unreadReport and leftOutWishes are of messages of the condition Reporting.
const (
	unreadReport  = "its report cannot be read"
	leftOutWishes = "that its Kyma asks for are left out"
)

var publishFailures = []phrase{
	{"the agent is too old for ", AgentOutdated},
	{"runtime id ", DuplicateRuntimeID},
	{"its runtime is ", RuntimeIDChanged},
	{"metadata.annotations[kyma-pull.dev/pinned-versions]", PinsInvalid},
	{"the registry answers", RegistryNotAnswering},
	{"annotation kyma-pull.dev/", AnnotationInvalid},
	{"annotations: ", AnnotationInvalid},
	{"annotations[", AnnotationInvalid},
}

var sealFailures = []phrase{
	{"image pull Secret ", SecretMissing},
}

var resolveFailures = []phrase{
	{"the agent is too old for ", AgentOutdated},
	{"which the Kyma pins it to, cannot be had", PinUnavailable},
	{"cannot be asked for without a ModuleReleaseMeta", PinUnavailable},
	{"stays as lifecycle-manager installed it", ModuleNotInherited},
	{": is unknown: there is neither a ModuleReleaseMeta", ModuleUnknown},
	{" has no version: ", ChannelMissing},
	{" has no ModuleTemplate: add ", TemplateMissing},
	{"there is no ModuleTemplate ", TemplateMissing},
	{" has two ModuleTemplates: remove ", TemplateDoubled},
	{": is not offered to this runtime: ", ModuleNotOffered},
	{" is for the control plane and goes into its own cluster only", ModuleNotOffered},
	{": is mandatory and installed without being asked for", ModuleNotOffered},
	{"component version not found", ComponentNotFound},
	{"of the signature policy covers it", ComponentUnsigned},
	{"the policy's rule for ", ComponentUnsigned},
	{"so that no signature covers it", ComponentUnsigned},
	{"the signature policy lets that one be unsigned", ComponentUnsigned},
	{", which is older", OlderVersionAsked},
	{": component ", ComponentBroken},
}

// refusals are the agent's.
var refusals = map[refusal.Reason]Situation{
	refusal.Expired:      BundleExpired,
	refusal.WrongRuntime: BundleWrongRuntime,
	refusal.WrongCluster: BundleWrongRuntime,
	refusal.Downgrade:    BundleDowngrade,
	refusal.NotYetIssued: BundleClock,
	refusal.UnknownKey:   BundleKeyUnknown,
	refusal.WrongEpoch:   BundleKeyUnknown,
	refusal.BadRoot:      BundleKeyUnknown,
	refusal.Revoked:      BundleKeyUnknown,
	refusal.RootExpired:  BundleRootExpired,
	refusal.Rollback:     BundleReplayed,
	refusal.Equivocation: BundleReplayed,
	refusal.NotReleased:  BundleNotReleased,

	refusal.UnsupportedFeature: AgentOutdated,
}

var moduleFailures = []phrase{
	{"can only be changed by recreating it", ModuleImmutable},
	{"there already and not made by this module", ModuleConflict},
	{" already: remove it from one of both", ModuleConflict},
	{": grant it that, or remove the objects from the module", ModuleForbidden},
	{" may not write ", ModuleForbidden},
	{" lacks a right: ", ModuleForbidden},
	{"exceeded quota", ModuleApplyFailed},
	{"is forbidden", ModuleForbidden},
	{"remove it from the module", ModuleProtected},
	{"the cluster does not know this kind", ModuleKindUnknown},
	{"content is not stored", ModuleContentMissing},
	{"stored content is broken", ModuleContentMissing},
	{": the next version waits: ", ModuleContentMissing},
	{": cannot be installed: ", ModuleContentMissing},
	{"annotation kyma-pull.dev/images", ModuleImages},
	{"ImagePullBackOff", ModuleImagePull},
	{"ErrImagePull", ModuleImagePull},
	{" was applied: ", ModuleApplyFailed},
	{" is applied in part, which is not undone", ModuleApplyFailed},
	{"not ready after ", ModuleNotReadyInTime},
}

var moduleWarnings = []phrase{
	{"the module goes when its custom resources are gone", ModuleRemovalBlocked},
}

var windowMessages = []phrase{
	{"has no maintenance window ahead", WindowMissing},
}

// reasonIn returns the reason of a refusal that a message tells of in the first of its parentheses, empty for none.
func reasonIn(message string) refusal.Reason {
	_, after, is := strings.Cut(message, "(")
	reason, _, closed := strings.Cut(after, ")")
	if !is || !closed {
		return ""
	}
	return refusal.Reason(reason)
}
