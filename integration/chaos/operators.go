package chaos

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// operate executes a user's action. Callers can repeat a failed action.
func (s *stage) operate(ctx context.Context, step Step) error {
	switch step.Kind {
	case RotatePublisher:
		s.checker.PublisherKeyRotated(s.since())
		return s.keys(ctx, "rotate", "publisher")
	case RotateEnroll:
		return s.keys(ctx, "rotate", "enroll")
	case RotateRoot:
		return s.keys(ctx, "rotate", "root")
	case RotateToken:
		return s.rotateToken(ctx)
	case Promote, PromoteBroken:
		return s.promote(ctx, step.Target, step.Kind == PromoteBroken)
	case PutBack:
		return s.putBack(ctx)
	case UndoRollout:
		return s.controlRollout(ctx, "undo")
	case CreateKyma:
		return s.simulate(ctx, step.Target)
	case DeleteKyma:
		return s.deleteKyma(ctx, step.Target)
	case AddModule, RemoveModule:
		return s.editKyma(ctx, step.Target, step.Kind == AddModule)
	case DeleteOwnKyma:
		return s.deleteOwnKyma(ctx, step.Target)
	case EditObject:
		return s.editObject(ctx, step.Target)
	case DeleteObject:
		object := objectsOf[scaler][step.Serial%len(objectsOf[scaler])].DeepCopyObject().(client.Object)
		s.checker.Deleted(s.since(), step.Target, nameOf(object))
		if nameOf(object) == nameOf(definition(scalers)) { // custom resources are deleted with their CRD
			s.checker.Deleted(s.since(), step.Target, "Scaler default")
			s.checker.Deleted(s.since(), step.Target, "Scaler "+usersName)
		}
		return client.IgnoreNotFound(s.reals[step.Target].API.Delete(ctx, object))
	}
	return fmt.Errorf("%w: %s", errImpossible, step.Kind)
}

// keys runs `kcp-publisher keys` to change the key folder.
func (s *stage) keys(ctx context.Context, args ...string) error {
	s.once.Lock()
	defer s.once.Unlock()
	output, code := fleet.Run(ctx, s.fleet.Binaries().Publisher,
		slices.Concat([]string{"keys"}, args, []string{"--keys", filepath.Join(s.dir, "keys")})...)
	if code != 0 {
		return fmt.Errorf("keys %v: exit code %d\n%s", args, code, output)
	}
	return s.tap.recordRoot()
}

// rotateToken rotates the token secret, but only if all agents are enrolled. A second rotation would invalidate the
// token of an agent that is not enrolled yet.
func (s *stage) rotateToken(ctx context.Context) error {
	if slices.ContainsFunc(s.plan, func(p Step) bool { return p.Kind == RestoreControl }) {
		s.story.Add("the token secret is not rotated: newer runtimes enroll again after a restore of the control plane")
		return nil
	}
	s.mu.Lock()
	gone, enrolling := maps.Clone(s.gone), maps.Clone(s.enrolling)
	s.mu.Unlock()
	for id := range s.reals {
		if enrolling[id] {
			s.story.Add("the token secret is not rotated: %s is not enrolled again yet", id)
			return nil
		}
	}
	for id, sim := range s.simulated() {
		if !gone[id] && !sim.Enrolled() {
			s.story.Add("the token secret is not rotated: %s is not enrolled yet", id)
			return nil
		}
	}
	return s.keys(ctx, "rotate", "token")
}

// promote commits a change that sets a new version in the channel.
func (s *stage) promote(ctx context.Context, version string, broken bool) error {
	s.releasing.Lock()
	defer s.releasing.Unlock()
	s.checker.Promoted(scaler, version, broken)
	if !broken && s.channel != version {
		s.before = s.channel
	}
	s.channel = version
	return s.repo.push(ctx, "promote "+version, map[string]any{"releases/" + scaler: release(version)})
}

// putBack commits a change that sets the previous version in the channel.
func (s *stage) putBack(ctx context.Context) error {
	s.releasing.Lock()
	defer s.releasing.Unlock()
	version := s.before
	if s.channel != version {
		s.checker.TookBack(s.channel)
	}
	s.channel = version
	s.story.Add("the channel is set back to %s", version)
	return s.repo.push(ctx, "put back "+version, map[string]any{"releases/" + scaler: release(version)})
}

// newestRollout returns the name of the newest rollout, or "" if no rollout exists.
func (s *stage) newestRollout(ctx context.Context) (string, error) {
	var rollouts v1alpha1.RolloutList
	if err := s.fleet.Control.List(ctx, &rollouts, client.InNamespace(sample.Namespace)); err != nil ||
		len(rollouts.Items) == 0 {
		return "", err
	}
	return slices.MaxFunc(rollouts.Items,
		func(a, b v1alpha1.Rollout) int { return int(a.Spec.Revision - b.Spec.Revision) }).Name, nil
}

// controlRollout runs `kcp-publisher rollout` for the newest rollout. It ignores the command's errors, because a
// finished rollout refuses some actions.
func (s *stage) controlRollout(ctx context.Context, how string) error {
	name, err := s.newestRollout(ctx)
	if err != nil || name == "" {
		return err
	}
	if how == "undo" {
		s.checker.Undone(name)
	}
	output, err := s.fleet.Ask(ctx, "rollout", how, name)
	s.story.Add("rollout %s %s: %s", how, name, output)
	if err != nil && s.fleet.Control.List(ctx, &v1alpha1.RolloutList{}) != nil {
		return err // the API server is not available
	}
	return nil
}

// deleteKyma deletes a Kyma. If the request fails, the runtime's modules count as requested again, although the API
// server may still delete the Kyma.
func (s *stage) deleteKyma(ctx context.Context, id string) error {
	s.once.Lock() // a restore of the control plane would create the Kyma again
	defer s.once.Unlock()
	s.checker.RequestWithdrawn(s.since(), id, scaler, mailer)
	if sim := s.simulated()[id]; sim != nil && len(sim.All()) > 0 {
		// After a restore of the control plane, the publisher may not have read the Kyma yet. It would then not notice
		// the deletion.
		s.insist(ctx, "the publisher knows Kyma "+id, func() error { return s.checkKnown(ctx, id) })
	}
	if err := s.fleet.Control.Delete(ctx, newKyma(id)); client.IgnoreNotFound(err) != nil {
		s.checker.Asked(s.since(), id, scaler)
		s.announceMailer(id)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone[id] = true
	return nil
}

func (s *stage) editKyma(ctx context.Context, id string, add bool) error {
	s.mu.Lock()
	s.mailers[id] = add
	s.mu.Unlock()
	s.announceMailer(id)
	edit := func(spec *v1beta2.KymaSpec) {
		spec.Modules = slices.DeleteFunc(spec.Modules, func(m v1beta2.Module) bool { return m.Name == mailer })
		if add {
			spec.Modules = append(spec.Modules, v1beta2.Module{
				Name: mailer, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
			})
		}
	}
	if sim := s.simulated()[id]; sim != nil {
		return sim.Edit(edit)
	}
	return s.reals[id].EditKyma(ctx, edit)
}

// deleteOwnKyma deletes the Kyma in a runtime. The agent must create the Kyma again, and keep the modules. If the
// control plane has not recorded the last request yet, the agent creates the Kyma without it, so the admin repeats the
// request.
func (s *stage) deleteOwnKyma(ctx context.Context, id string) error {
	s.checker.RequestWithdrawn(s.since(), id, mailer)
	kyma := &v1beta2.Kyma{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: v1beta2.RuntimeKymaName},
	}
	if err := s.reals[id].API.Delete(ctx, kyma); client.IgnoreNotFound(err) != nil {
		return err
	}
	s.insist(ctx, "repeat the requests of "+id, func() error { return s.editKyma(ctx, id, s.requestsMailer(id)) })
	return nil
}

func (s *stage) editObject(ctx context.Context, id string) error {
	config := settings()
	api := s.reals[id].API
	if err := api.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := config.DeepCopy()
	config.Data[editedKey] = editedValue
	s.checker.Edited(s.since(), id)
	return api.Patch(ctx, config, client.MergeFrom(before))
}

// setWindow closes or opens a runtime's maintenance window. If closed is true, it adds a maintenance schedule without
// windows to the runtime's Kyma. Otherwise, it removes the schedule.
func (s *stage) setWindow(ctx context.Context, id string, closed bool) error {
	kyma := &v1beta2.Kyma{}
	if err := s.fleet.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: id}, kyma); err != nil {
		return err
	}
	before := kyma.DeepCopy()
	if closed {
		metav1.SetMetaDataAnnotation(&kyma.ObjectMeta, v1beta2.AnnotationMaintenanceWindows, "[]")
	} else {
		delete(kyma.Annotations, v1beta2.AnnotationMaintenanceWindows)
	}
	return s.fleet.Control.Patch(ctx, kyma, client.MergeFrom(before))
}

// promoteLastVersion removes the rollout policy and promotes lastVersion to all runtimes.
func (s *stage) promoteLastVersion(ctx context.Context) {
	s.checker.PolicyRemoved()
	s.insist(ctx, "remove the policy", func() error {
		return s.repo.push(ctx, "remove the policy", map[string]any{"policy": nil})
	})
	s.insist(ctx, "the policy is gone", func() error {
		err := s.fleet.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: "careful"},
			&v1alpha1.RolloutPolicy{})
		if err == nil {
			return fmt.Errorf("the RolloutPolicy still exists")
		}
		return client.IgnoreNotFound(err)
	})
	s.insist(ctx, "promote "+lastVersion, func() error { return s.promote(ctx, lastVersion, false) })
}

// twoSided returns the functions that begin and end an action. The function end is nil for an instantaneous action.
func (s *stage) twoSided(step Step) (begin, end func(context.Context) error) {
	switch step.Kind {
	case PauseRollout:
		return func(ctx context.Context) error { return s.controlRollout(ctx, "pause") },
			func(ctx context.Context) error { return s.resumeAll(ctx) }
	case CloseWindow:
		return func(ctx context.Context) error { return s.setWindow(ctx, step.Target, true) },
			func(ctx context.Context) error { return s.setWindow(ctx, step.Target, false) }
	case RefuseCommit:
		return func(ctx context.Context) error { return s.refuseCommit(ctx, step) },
			func(ctx context.Context) error { return s.repairCommit(ctx, step) }
	case SuspendRuntime:
		return func(ctx context.Context) error { return s.suspend(ctx, step.Target, true) },
			func(ctx context.Context) error { return s.suspend(ctx, step.Target, false) }
	case RevokeKey:
		return func(ctx context.Context) error { return s.revokeKey(ctx, step.Target) },
			func(ctx context.Context) error { return s.renewKey(ctx, step.Target) }
	case RequireModule:
		return func(ctx context.Context) error { return s.requireMailer(ctx, true) },
			func(ctx context.Context) error { return s.requireMailer(ctx, false) }
	case MistypeWave:
		return func(ctx context.Context) error { return s.mistypeWave(ctx, step.Target) }, s.correctWave
	case HideModule:
		return func(ctx context.Context) error { return s.hideModule(ctx, true) },
			func(ctx context.Context) error { return s.hideModule(ctx, false) }
	case LoseLabel:
		return func(ctx context.Context) error { return s.labelCanary(ctx, step.Target, false) },
			func(ctx context.Context) error { return s.labelCanary(ctx, step.Target, true) }
	}
	return func(ctx context.Context) error { return s.operate(ctx, step) }, nil
}

// resumeAll resumes all paused rollouts.
func (s *stage) resumeAll(ctx context.Context) error {
	var rollouts v1alpha1.RolloutList
	if err := s.fleet.Control.List(ctx, &rollouts, client.InNamespace(sample.Namespace)); err != nil {
		return err
	}
	for _, r := range rollouts.Items {
		if !r.Spec.Paused {
			continue
		}
		before := r.DeepCopy()
		r.Spec.Paused = false
		if err := s.fleet.Control.Patch(ctx, &r, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

// convergeTimeout is the maximum time that the fleet may need to converge after the last fault.
const convergeTimeout = 3 * time.Minute
