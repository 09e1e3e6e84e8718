package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	agentobjects "github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// refusal is the refusal of one object of a new version by the API server.
type refusal struct {
	object *unstructured.Unstructured
	err    error
	// immutable is true if the API server refuses the object only because it changes immutable fields.
	immutable bool
	// stays is the reason why the agent does not delete the object, with the fix. Empty if the object can be deleted.
	stays string
}

// trial is the result of a dry run.
type trial struct {
	// recreate contains the objects that the agent must delete and create again. problem is nil if the dry run
	// succeeded.
	recreate []v1beta2.Resource
	problem  *outcome.Finding
	// denied is true if a webhook, policy or quota refused an object.
	denied bool
	// immutable contains the objects that the API server refuses only because of immutable fields.
	immutable object.Keys
}

// dryRunWithFix dry-runs a version. If a webhook or policy refuses the version, it first applies the version's
// webhooks and policies and repeats the dry run.
func (i *Installer) dryRunWithFix(ctx context.Context, m *v1beta2.Manifest, known *memo, p plan) (trial, error) {
	tried, err := i.dryRun(ctx, m, known, p)
	if err != nil || !tried.denied || record.Claims(m).Applied == nil {
		return tried, err
	}
	if relaxed, err := i.applyInterceptorsFirst(ctx, m, known, p); err != nil || !relaxed {
		return tried, err
	}
	return i.dryRun(ctx, m, known, p)
}

// dryRun dry-runs the objects of an upgrade, so that a refused upgrade makes no changes.
func (i *Installer) dryRun(ctx context.Context, m *v1beta2.Manifest, known *memo, p plan) (trial, error) {
	condition := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionInstallation)
	failed := condition != nil && slices.Contains([]string{v1beta2.ReasonApplyFailed, v1beta2.ReasonImmutable},
		condition.Reason)
	if isLastApplied(m) || record.Claims(m).Applied == nil && !failed {
		return trial{}, nil
	}
	refused, err := i.refusals(ctx, m, known, p)
	if err != nil {
		return trial{}, err
	}
	tried := trial{immutable: object.Keys{}}
	for n := range refused {
		r := &refused[n]
		tried.denied = tried.denied || agentobjects.IsDenied(r.err)
		if r.immutable {
			tried.immutable[guard.KeyOf(r.object)] = struct{}{}
			live, err := i.actor(m).Metadata(ctx, object.ResourceOf(r.object))
			if err != nil {
				return trial{}, err
			}
			r.stays = mayNotDelete(m, i.owner(m), live, guard.KeyOf(r.object))
		}
	}
	tried.recreate, tried.problem = judgeRefusals(m, refused)
	return tried, nil
}

// recreate deletes the objects to recreate. It returns a reason to wait while they still exist.
func (i *Installer) recreate(ctx context.Context, m *v1beta2.Manifest, p plan) (string, error) {
	if len(p.recreate) == 0 {
		return "", nil
	}
	var names []string
	var uids []types.UID
	for _, r := range p.recreate {
		o, err := i.actor(m).Metadata(ctx, r)
		if err != nil {
			return "", err
		}
		if o != nil && o.DeletionTimestamp.IsZero() {
			names, uids = append(names, object.KeyOf(r).String()), append(uids, o.UID)
		}
	}
	if len(names) > 0 {
		text := excerpt.FirstFew(names)
		log.FromContext(ctx).Info("recreating objects whose fields cannot be changed", "module", m.Module(), "version",
			m.Spec.Version, "objects", text)
		i.events.Eventf(m, nil, "Normal", v1beta2.ReasonRecreating, "Recreate", "recreating %s for version %s", text,
			m.Spec.Version)
	}
	if err := i.recordRecreation(ctx, m, uids); err != nil {
		return "", err
	}
	left, err := i.deleteObjects(ctx, m, p.recreate, i.owner(m).Owns)
	if err != nil || len(left.objects) == 0 {
		return "", err
	}
	return "waiting for deletion before recreating: " + excerpt.FirstFew(left.texts), nil
}

// refuse records the outcome of a refused version, so that the agent does not repeat the dry run for every event.
func (k *memo) refuse(m *v1beta2.Manifest, out outcome.Outcome, now time.Time, immutable object.Keys) {
	k.refused, k.refusedAs, k.retry, k.immutable = &out, asked(m), now.Add(out.Again), immutable
}

// tryAgainAfter drops the recorded refusal if an object with changed immutable fields was changed or deleted.
func (k *memo) tryAgainAfter(changed object.Keys) {
	for o := range changed {
		if k.immutable.Has(o) {
			k.refused = nil
		}
	}
}

// stillRefused returns the recorded outcome of a refused version until the time of the next attempt. It returns nil if
// no refusal is recorded.
func (k *memo) stillRefused(m *v1beta2.Manifest, now time.Time) *outcome.Outcome {
	if k.refused == nil || k.refusedAs != asked(m) || !now.Before(k.retry) {
		k.refused = nil
		return nil
	}
	out := *k.refused
	out.Inventory, out.Again = m.Status.Synced, k.retry.Sub(now)
	return &out
}

func asked(m *v1beta2.Manifest) string { return fmt.Sprint(m.Generation, m.Labels, m.Annotations) }

// refusals dry-runs the objects of a plan and returns the refused objects. It ignores temporary errors, and objects
// that depend on other objects of the plan. It marks objects that the dry run does not change, and the agent then does
// not apply them.
func (i *Installer) refusals(ctx context.Context, m *v1beta2.Manifest, known *memo, p plan) ([]refusal, error) {
	a, defined := i.actor(m), definedGroups(p)
	var refused []refusal
	for _, o := range slices.Concat(p.stages[:]...) {
		gk := o.GroupVersionKind().GroupKind()
		if defined[gk.Group] {
			continue
		}
		if i.isSettled(known, o) {
			continue
		}
		tried, err := a.Apply(ctx, o, client.DryRunAll)
		switch {
		case err == nil:
			i.settleUnchanged(known, o, tried)
			continue
		case apierrors.IsNotFound(err), account.IsTransient(err),
			apierrors.IsForbidden(err) && (gk.Group == "rbac.authorization.k8s.io" || gk == object.PodKind):
			continue
		case account.IsTemporary(err), ctx.Err() != nil:
			return nil, err
		}
		immutable, probeErr := a.IsImmutable(ctx, o, err)
		if probeErr != nil {
			return nil, probeErr
		}
		refused = append(refused, refusal{object: o, err: account.ObjectError{Key: guard.KeyOf(o), Err: err}, immutable: immutable})
	}
	return refused, nil
}

func definedGroups(p plan) map[string]bool {
	defined := map[string]bool{}
	for _, o := range p.stages[0] {
		if guard.IsCRD(o.GroupVersionKind().GroupKind()) {
			group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
			defined[group] = true
		}
	}
	return defined
}

// judgeRefusals returns the problem that prevents a new version, or the objects that must be recreated for it.
func judgeRefusals(m *v1beta2.Manifest, refused []refusal) (recreate []v1beta2.Resource, problem *outcome.Finding) {
	version := m.Annotations[v1beta2.AnnotationRecreate]
	var wrong, fixed, kept, allowed []string
	forbidden := false
	for _, r := range refused {
		switch {
		case !r.immutable:
			wrong = append(wrong, r.err.Error())
			forbidden = forbidden || account.LacksRight(r.err)
		case guard.MayRecreate(r.object, version) && r.stays != "":
			wrong = append(wrong, r.err.Error()+": "+r.stays)
		case guard.MayRecreate(r.object, version):
			allowed = append(allowed, guard.KeyOf(r.object).String())
			recreate = append(recreate, object.ResourceOf(r.object))
		case guard.HoldsData(r.object):
			kept = append(kept, r.err.Error())
		default:
			fixed = append(fixed, r.err.Error())
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
	case record.Claims(m).Applied == nil:
		return strings.TrimSpace("version "+m.Spec.Version) + " is applied without these objects"
	case isBegun(m):
		return strings.TrimSpace("version "+m.Spec.Version) + " is partially applied, and is not rolled back"
	case m.Spec.Version == "":
		return "nothing was applied"
	}
	return "nothing of version " + m.Spec.Version + " was applied"
}
