package fleet

import (
	"cmp"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// source is a field of a Kyma's status that contains reasons. The meaning of a reason depends on the field.
type source string

const (
	fromPublish source = "publish" // status.runtime.reasons.publish
	fromSealing source = "secrets" // status.runtime.reasons.secrets, if the publisher could not encrypt the Secrets
	fromReport  source = "report"  // status.runtime.reasons.report
	fromBundle  source = "bundle"  // status.runtime.reasons.bundle
	fromProblem source = "problem" // status.runtime.reasons.modules[].problem
	fromModule  source = "runtime" // status.runtime.reasons.modules[].runtime
)

// situations maps each reason in a field of a Kyma's status to a situation. If a reason is not in the map, the
// situation of reason Other applies.
var situations = map[source]map[v1beta2.Reason]Situation{
	fromPublish: {
		v1beta2.Reason(reason.AgentOutdated):        AgentOutdated,
		v1beta2.Reason(reason.DuplicateRuntimeID):   DuplicateRuntimeID,
		v1beta2.Reason(reason.RuntimeUnassigned):    RuntimeUnassigned,
		v1beta2.Reason(reason.RuntimeHandedOver):    RuntimeHandedOver,
		v1beta2.Reason(reason.CloneDetected):        CloneDetected,
		v1beta2.Reason(reason.RuntimeIDInvalid):     RuntimeIDInvalid,
		v1beta2.Reason(reason.RuntimeIDChanged):     RuntimeIDChanged,
		v1beta2.Reason(reason.PinsInvalid):          PinsInvalid,
		v1beta2.Reason(reason.AnnotationInvalid):    AnnotationInvalid,
		v1beta2.Reason(reason.RegistryNotAnswering): RegistryNotAnswering,
		v1beta2.Reason(reason.RootExpired):          RootExpired,
		v1beta2.Reason(reason.KeysNotAccepted):      KeysNotAccepted,
		v1beta2.Reason(reason.Other):                PublishFailed,
	},
	fromSealing: {
		v1beta2.Reason(reason.SecretMissing): SecretMissing,
		v1beta2.Reason(reason.Other):         SecretsNotSealed,
	},
	fromReport: {
		v1beta2.Reason(refusal.Revoked):      KeyRevoked,
		v1beta2.Reason(refusal.NotEnrolled):  EnrollmentRefused,
		v1beta2.Reason(refusal.ForeignKey):   ForeignKey,
		v1beta2.Reason(refusal.WrongRuntime): ForeignKey,
		v1beta2.Reason(refusal.WrongCluster): CloneDetected,
		v1beta2.Reason(refusal.WrongKyma):    RuntimeUnassigned,
		v1beta2.Reason(refusal.NotYetIssued): RuntimeClockAhead,
		v1beta2.Reason(reason.Other):         ReportRefused,
	},
	fromBundle: {
		v1beta2.Reason(refusal.Expired):            BundleExpired,
		v1beta2.Reason(refusal.WrongRuntime):       BundleWrongRuntime,
		v1beta2.Reason(refusal.WrongCluster):       BundleWrongRuntime,
		v1beta2.Reason(refusal.WrongKyma):          BundleWrongRuntime,
		v1beta2.Reason(refusal.Downgrade):          BundleDowngrade,
		v1beta2.Reason(refusal.NotYetIssued):       BundleClock,
		v1beta2.Reason(refusal.UnknownKey):         BundleKeyUnknown,
		v1beta2.Reason(refusal.WrongEpoch):         BundleKeyUnknown,
		v1beta2.Reason(refusal.BadRoot):            BundleKeyUnknown,
		v1beta2.Reason(refusal.Revoked):            BundleKeyUnknown,
		v1beta2.Reason(refusal.RootExpired):        BundleRootExpired,
		v1beta2.Reason(refusal.Rollback):           BundleReplayed,
		v1beta2.Reason(refusal.Equivocation):       BundleReplayed,
		v1beta2.Reason(refusal.NotReleased):        BundleNotReleased,
		v1beta2.Reason(refusal.UnsupportedFeature): AgentOutdated,
		v1beta2.Reason(reason.Other):               BundleRefused,
	},
	fromProblem: {
		v1beta2.Reason(reason.ModuleUnknown):      ModuleUnknown,
		v1beta2.Reason(reason.ChannelMissing):     ChannelMissing,
		v1beta2.Reason(reason.TemplateMissing):    TemplateMissing,
		v1beta2.Reason(reason.TemplateDoubled):    TemplateDoubled,
		v1beta2.Reason(reason.CatalogInvalid):     CatalogInvalid,
		v1beta2.Reason(reason.PinUnavailable):     PinUnavailable,
		v1beta2.Reason(reason.ModuleNotOffered):   ModuleNotOffered,
		v1beta2.Reason(reason.ComponentNotFound):  ComponentNotFound,
		v1beta2.Reason(reason.ComponentUnsigned):  ComponentUnsigned,
		v1beta2.Reason(reason.ComponentBroken):    ComponentBroken,
		v1beta2.Reason(reason.OlderVersionAsked):  OlderVersionAsked,
		v1beta2.Reason(reason.ModuleNotInherited): ModuleNotInherited,
		v1beta2.Reason(reason.RemovalHeld):        RemovalHeld,
		v1beta2.Reason(reason.ValueUndefined):     ValueUndefined,
		v1beta2.Reason(reason.ValueInvalid):       ValueInvalid,
		v1beta2.Reason(reason.AgentOutdated):      AgentOutdated,
		v1beta2.Reason(reason.Other):              ModuleUnresolved,
	},
	fromModule: {
		v1beta2.Reason(reason.Forbidden):            ModuleForbidden,
		v1beta2.Reason(reason.ApplyFailed):          ModuleApplyFailed,
		v1beta2.Reason(reason.Immutable):            ModuleImmutable,
		v1beta2.Reason(reason.Conflict):             ModuleConflict,
		v1beta2.Reason(reason.Protected):            ModuleProtected,
		v1beta2.Reason(reason.UnknownKind):          ModuleKindUnknown,
		v1beta2.Reason(reason.ImagesBroken):         ModuleImages,
		v1beta2.Reason(reason.ImagePull):            ModuleImagePull,
		v1beta2.Reason(reason.ContentMissing):       ModuleContentMissing,
		v1beta2.Reason(reason.ContentBroken):        ModuleContentBroken,
		v1beta2.Reason(reason.SourceBroken):         ModuleContentBroken,
		v1beta2.Reason(reason.Timeout):              ModuleNotReadyInTime,
		v1beta2.Reason(reason.CustomResourcesExist): ModuleRemovalBlocked,
		v1beta2.Reason(reason.ReportsWarning):       ModuleWarning,
		v1beta2.Reason(reason.WindowAwaited):        WindowAwaited,
		v1beta2.Reason(reason.WindowMissing):        WindowMissing,
		v1beta2.Reason(reason.ValueUndefined):       ValueUndefined,
		v1beta2.Reason(reason.ValueInvalid):         ValueInvalid,
		v1beta2.Reason(reason.Other):                ModuleBroken,
	},
}

func (s source) situation(r v1beta2.Reason) Situation {
	return cmp.Or(situations[s][r], situations[s][v1beta2.Reason(reason.Other)])
}

func (k *kymaState) reasons() v1beta2.RuntimeReasons {
	if r := k.kyma.Status.Runtime; r != nil && r.Reasons != nil {
		return *r.Reasons
	}
	return v1beta2.RuntimeReasons{}
}

func (k *kymaState) moduleReasons(name string) v1beta2.ModuleReasons {
	for _, m := range k.reasons().Modules {
		if m.Name == name {
			return m
		}
	}
	return v1beta2.ModuleReasons{}
}
