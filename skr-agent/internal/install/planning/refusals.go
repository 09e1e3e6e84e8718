package planning

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/render"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// Refusal describes an object in a new version that the API server rejected.
type Refusal struct {
	Object *unstructured.Unstructured
	Err    error
	// Immutable is true if the API server rejects the object only because it changes immutable fields.
	Immutable bool
	// Stays is the reason why the agent does not delete the object, followed by the fix. It is empty if the object can
	// be deleted.
	Stays string
}

// JudgeRefusals returns the problem that prevents a new version, or the objects that must be recreated for the new
// version.
func JudgeRefusals(m *v1beta2.Manifest, refused []Refusal) (recreate []v1beta2.Resource, problem *outcome.Finding) {
	version := m.Annotations[v1beta2.AnnotationRecreate]
	var wrong, fixed, kept, allowed []string
	forbidden := false
	for _, r := range refused {
		switch {
		case !r.Immutable:
			wrong = append(wrong, r.Err.Error())
			forbidden = forbidden || account.LacksRight(r.Err)
		case guard.CanRecreate(r.Object, version) && r.Stays != "":
			wrong = append(wrong, r.Err.Error()+": "+r.Stays)
		case guard.CanRecreate(r.Object, version):
			allowed = append(allowed, guard.KeyOf(r.Object).String())
			recreate = append(recreate, object.ResourceOf(r.Object))
		case guard.ContainsData(r.Object):
			kept = append(kept, r.Err.Error())
		default:
			fixed = append(fixed, r.Err.Error())
		}
	}
	if len(wrong)+len(fixed)+len(kept) == 0 {
		return recreate, nil
	}
	problem = &outcome.Finding{Reason: v1beta2.ReasonApplyFailed}
	var texts []string
	if len(wrong) > 0 {
		texts = append(texts, excerpt.FirstFew(wrong))
		if forbidden {
			problem.Reason = v1beta2.ReasonForbidden
		}
	}
	const text = "%s: can only be changed by recreating it: do not change the field, or set the annotation %s: " +
		"%q %s"
	if len(fixed) > 0 {
		texts = append(texts,
			fmt.Sprintf(text, excerpt.FirstFew(fixed), v1beta2.AnnotationRecreate, v1beta2.True,
				"on it in the module's content, or on the ModuleTemplate"))
	}
	if len(kept) > 0 {
		texts = append(texts,
			fmt.Sprintf(text, excerpt.FirstFew(kept), v1beta2.AnnotationRecreate, v1beta2.RecreateWithData,
				"on it in the module's content, if its data may be deleted"))
	}
	if len(allowed) > 0 {
		texts = append(texts, "would be recreated: "+excerpt.FirstFew(allowed))
	}
	if len(wrong) == 0 {
		problem.Reason = v1beta2.ReasonImmutable
	}
	problem.Message = appliedPart(m) + ": " + strings.Join(texts, "; ")
	return nil, problem
}

// appliedPart describes which part of a refused version was applied.
func appliedPart(m *v1beta2.Manifest) string {
	switch {
	case record.ReadUnverified(m).Applied == nil:
		return strings.TrimSpace("version "+m.Spec.Version) + " is applied without these objects"
	case IsBegun(m):
		return strings.TrimSpace("version "+m.Spec.Version) + " is partially applied, and is not rolled back"
	case m.Spec.Version == "":
		return "nothing was applied"
	}
	return "nothing of version " + m.Spec.Version + " was applied"
}

// MayNotDelete returns the reason why the agent must not delete an object to create it again, and the fix. It returns
// "" if the agent can delete the object.
func MayNotDelete(m *v1beta2.Manifest, by object.Owner, live *metav1.PartialObjectMetadata, k guard.Key) string {
	switch {
	case live == nil:
		return ""
	case guard.IsSharedNamespace(k, by.Namespace) || guard.ProtectionReason(k, by.Namespace) != "":
		return "is not recreated because the runtime needs it: do not change its immutable fields"
	case render.KeepsOnRemoval(live):
		return "is not recreated because of its annotation helm.sh/resource-policy=keep: do not change its immutable " +
			"fields, or remove this annotation in the runtime"
	case !by.Owns(live):
		return fmt.Sprintf(
			"is not recreated because it does not belong to this module%s: rename it in the module, delete it, or "+
				"hand it over with the annotation %s=%s",
			object.DescribeOwner(live),
			v1beta2.AnnotationAdopt,
			by.OwnedBy,
		)
	case wasRecreated(m, live.UID):
		return "is not recreated again because it was already recreated for this version: publish another version"
	}
	return ""
}
