// Package permission defines the settings of a Kyma that require a permission in addition to write access, such as
// approving a removal. Each setting requires a verb on the Kyma.
//
// The Helm chart's admission policy, the chart's Role for operators and docs/reference/kyma-settings.md are generated
// from the variable Settings. The API server enforces the admission policy. The publisher sends a dry run of Probe, and
// ignores the settings if this shows that the policy is missing.
package permission

import (
	"maps"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Place is the part of a Kyma that contains a setting.
type Place string

// These are the parts of a Kyma that can contain a setting.
const (
	Annotation Place = "annotation"
	Label      Place = "label"
	Field      Place = "field"
)

// fieldSkipWindows is a field in the spec of a Kyma. It is the only field that requires another verb in addition to
// update.
const fieldSkipWindows = "spec.skipMaintenanceWindows"

// Setting is a setting of a Kyma that requires a permission.
type Setting struct {
	Place Place
	// Key is the key of the annotation or label, or the path of the field.
	Key string
	// Verb is the verb on kymas.operator.kyma-project.io that a user needs to change the setting.
	Verb string
	// Effect is the description of the setting on the reference page.
	Effect string
	// HonoredReason is the reason why the publisher applies the setting even if the admission policy is missing. It is
	// empty for a setting that the publisher ignores without the policy.
	HonoredReason string
}

// These constants are the verbs on kymas.operator.kyma-project.io that the settings require.
const (
	VerbSetAgent         = "set-agent"
	VerbSetAutonomy      = "set-autonomy"
	VerbSetCarried       = "set-carried"
	VerbSetMaintenance   = "set-maintenance"
	VerbPin              = "pin"
	VerbRunChecks        = "run-checks"
	VerbApproveRemovals  = "approve-removals"
	VerbMove             = "move"
	VerbRevoke           = "revoke"
	VerbForceDelete      = "force-delete"
	VerbTakeOver         = "take-over"
	VerbTargetControl    = "target-control-plane"
	resourceKymas        = "kymas"
	honoredUntilRemoved  = "without it, the publisher would uninstall modules"
	honoredInATakeover   = "without it, a takeover in progress would stop halfway"
	honoredAsRestriction = "the author of a Kyma can stop publishing anyway"
)

// Revision is the revision of the admission policy. Increase it with each change to the keys in Settings.
const Revision = 2

// Settings lists all settings that require a permission.
var Settings = []Setting{
	{Annotation, v1beta2.AnnotationAgentImage, VerbSetAgent, "selects the image of the runtime's agent", ""},
	{Annotation, v1beta2.AnnotationAgentRollbackFrom, VerbSetAgent, "lets the agent return to an older image", ""},
	{Annotation, v1beta2.AnnotationAutonomy, VerbSetAutonomy, "lets the runtime choose modules by itself", ""},
	{
		Annotation,
		v1beta2.AnnotationCarried,
		VerbSetCarried,
		"allows months without a report, and bundles that are valid for a longer time",
		"",
	},
	{
		Annotation,
		v1beta2.AnnotationMaintenanceWindows,
		VerbSetMaintenance,
		"replaces the maintenance windows in the policy",
		"",
	},
	{
		Annotation,
		v1beta2.AnnotationEarlyUpgrades,
		VerbSetMaintenance,
		"lets the runtime's admin upgrade before a window",
		"",
	},
	{Field, fieldSkipWindows, VerbSetMaintenance, "upgrades without waiting for a window", ""},
	{
		Annotation,
		v1beta2.AnnotationPinnedVersions,
		VerbPin,
		"keeps modules at a version, without security updates",
		"",
	},
	{
		Annotation, v1beta2.AnnotationCheckRun, VerbRunChecks,
		"runs selected checks in the runtime", "",
	},
	{Annotation, v1beta2.AnnotationApprovedRemovals, VerbApproveRemovals, "approves held module removals", ""},
	{
		Annotation,
		v1beta2.AnnotationHandOver,
		VerbMove,
		"assigns a runtime to the Kyma",
		"the token secret proves the operator's decision",
	},
	{Annotation, v1beta2.AnnotationMovedAway, VerbMove, "releases the runtime", honoredAsRestriction},
	{
		Annotation,
		v1beta2.AnnotationRevokedKeys,
		VerbRevoke,
		"refuses reports signed with the listed keys",
		"an ignored revocation would accept a stolen key",
	},
	{Label, v1beta2.LabelForceDeletion, VerbForceDelete, "deletes the Kyma without waiting for its runtime", ""},
	{Label, v1beta2.LabelRuntimeGone, VerbForceDelete, "deletes the Kyma of a lost runtime at once", ""},
	{Label, v1beta2.LabelTakeover, VerbTakeOver, "takes the runtime over from lifecycle-manager", honoredInATakeover},
	{
		Annotation,
		v1beta2.AnnotationTakeoverPhase,
		VerbTakeOver,
		"selects the phase of the takeover",
		honoredInATakeover,
	},
	{
		Label,
		v1beta2.LabelControlPlane,
		VerbTargetControl,
		"installs the control plane's modules",
		honoredUntilRemoved,
	},
}

func (s Setting) isSet(kyma *v1beta2.Kyma) (ok bool) {
	switch s.Place {
	case Annotation:
		_, ok = kyma.Annotations[s.Key]
	case Label:
		_, ok = kyma.Labels[s.Key]
	case Field:
		ok = kyma.Spec.SkipMaintenanceWindows
	}
	return ok
}

// IgnoredSettings returns those settings of a Kyma that the publisher ignores if the admission policy is missing.
func IgnoredSettings(kyma *v1beta2.Kyma) (all []Setting) {
	for _, s := range Settings {
		if s.HonoredReason == "" && s.isSet(kyma) {
			all = append(all, s)
		}
	}
	return all
}

// RemoveSettings removes settings from a Kyma. It does not change the annotation and label maps in place, because a
// cache can share them.
func RemoveSettings(kyma *v1beta2.Kyma, settings []Setting) {
	annotations, labels := maps.Clone(kyma.Annotations), maps.Clone(kyma.Labels)
	for _, s := range settings {
		switch s.Place {
		case Annotation:
			delete(annotations, s.Key)
		case Label:
			delete(labels, s.Key)
		case Field:
			kyma.Spec.SkipMaintenanceWindows = false
		}
	}
	kyma.Annotations, kyma.Labels = annotations, labels
}

// JoinKeys returns the keys of settings, separated by commas.
func JoinKeys(settings []Setting) string {
	keys := make([]string, len(settings))
	for i, s := range settings {
		keys[i] = s.Key
	}
	return strings.Join(keys, ", ")
}
