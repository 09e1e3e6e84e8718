package install

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
	agentobjects "github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

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
func (i *Installer) dryRunWithFix(ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan) (trial, error) {
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
func (i *Installer) dryRun(ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan) (trial, error) {
	condition := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionInstallation)
	failed := condition != nil && slices.Contains([]string{v1beta2.ReasonApplyFailed, v1beta2.ReasonImmutable},
		condition.Reason)
	if planning.IsLastApplied(m) || record.Claims(m).Applied == nil && !failed {
		return trial{}, nil
	}
	refused, err := i.refusals(ctx, m, known, p)
	if err != nil {
		return trial{}, err
	}
	tried := trial{immutable: object.Keys{}}
	for n := range refused {
		r := &refused[n]
		tried.denied = tried.denied || agentobjects.IsDenied(r.Err)
		if r.Immutable {
			tried.immutable[guard.KeyOf(r.Object)] = struct{}{}
			live, err := i.actor(m).Metadata(ctx, object.ResourceOf(r.Object))
			if err != nil {
				return trial{}, err
			}
			r.Stays = planning.MayNotDelete(m, i.owner(m), live, guard.KeyOf(r.Object))
		}
	}
	tried.recreate, tried.problem = planning.JudgeRefusals(m, refused)
	return tried, nil
}

// recreate deletes the objects to recreate. It returns a reason to wait while they still exist.
func (i *Installer) recreate(ctx context.Context, m *v1beta2.Manifest, p planning.Plan) (string, error) {
	if len(p.Recreate) == 0 {
		return "", nil
	}
	var names []string
	var uids []types.UID
	for _, r := range p.Recreate {
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
	left, err := i.deleteObjects(ctx, m, p.Recreate, i.owner(m).Owns)
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
func (i *Installer) refusals(ctx context.Context, m *v1beta2.Manifest, known *memo, p planning.Plan) ([]planning.Refusal, error) {
	a, defined := i.actor(m), planning.DefinedGroups(p)
	var refused []planning.Refusal
	for _, o := range slices.Concat(p.Stages[:]...) {
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
		refused = append(refused, planning.Refusal{Object: o, Err: account.ObjectError{Key: guard.KeyOf(o), Err: err}, Immutable: immutable})
	}
	return refused, nil
}
