package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// startFault starts a fault. The function end ends the fault. It is nil for an instantaneous fault. ok is false if the
// step is not a fault.
func (s *stage) startFault(ctx context.Context, step Step) (end func() error, ok bool, err error) {
	switch step.Kind {
	case KillPublisher, KillAgent:
		end, err = s.kill(s.programs[step.Target])
	case KillPlanner:
		end, err = s.killPlanner(ctx)
	case StopPublishers:
		end, err = s.stopPublishers()
	case StopControlAPI:
		end, err = s.fleet.ResumeControlPlane, s.fleet.PauseControlPlane()
	case StopRuntimeAPI:
		r := s.reals[step.Target]
		end, err = r.Resume, r.Pause()
	case StopRegistry:
		end, err = s.registry.Resume, s.registry.Stop()
	case SlowRegistry:
		s.troubles.set(func() { s.troubles.slow = true })
		end = func() error { s.troubles.set(func() { s.troubles.slow = false }); return nil }
	case FailRegistry:
		s.troubles.set(func() { s.troubles.failing = true })
		end = func() error { s.troubles.set(func() { s.troubles.failing = false }); return nil }
	case RefuseWrites:
		s.troubles.set(func() { s.troubles.refused = "/runtimes/" + step.Target + "/" })
		end = func() error { s.troubles.set(func() { s.troubles.refused = "" }); return nil }
	case LoseAnswers:
		s.troubles.set(func() { s.troubles.silent = true })
		end = func() error { s.troubles.set(func() { s.troubles.silent = false }); return nil }
	case FillRegistry:
		end, err = fill(s.storage)
	case FillCache:
		end, err = fill(s.cache)
	case LoseBundles:
		err = s.removeRepositories(step)
	case RestoreRegistry:
		err = s.restore(step.Serial)
	case CutRuntime:
		end, err = s.cut(ctx, step.Target)
	case HangWay, ResetWay, SlowWay, ForgetWay:
		end, err = s.startNetworkFault(ctx, step)
	case SetClock:
		p := s.programs[strings.TrimPrefix(step.Target, publisherPrefix)]
		end, err = func() error { return p.setClock(0) }, p.setClock(step.By)
	case ReplaceCA:
		end, err = s.replaceCA(ctx)
	case TakeLease, DeleteLease:
		err = s.takeLease(ctx, step.Kind == DeleteLease)
	default:
		return s.startDisaster(ctx, step)
	}
	return end, true, err
}

func (s *stage) kill(p *program) (end func() error, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	return func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		again, err := p.start()
		if err == nil {
			p.runs, p.down = again, false
		}
		return err
	}, p.runs.Kill()
}

// stopPublishers waits until no other step keeps a publisher down, and then kills all publishers. The function end
// starts them again.
func (s *stage) stopPublishers() (end func() error, err error) {
	var problems []error
	var replicas []string
	for _, id := range s.shape.replicas() {
		replicas = append(replicas, replica(id))
	}
	unlock := s.locks.takeAll(replicas)
	var starts []func() error
	for _, id := range s.shape.replicas() {
		start, err := s.kill(s.programs[id])
		starts, problems = append(starts, start), append(problems, err)
	}
	return func() error {
		for len(starts) > 0 {
			if err := starts[0](); err != nil {
				return err
			}
			starts = starts[1:]
		}
		unlock()
		return nil
	}, errors.Join(problems...)
}

func fill(v *volume) (end func() error, err error) {
	if v == nil {
		return nil, errImpossible
	}
	return v.drain, v.fillVolume()
}

func (s *stage) cut(ctx context.Context, id string) (end func() error, err error) {
	if sim := s.simulated()[id]; sim != nil {
		sim.GoAway()
		return func() error { sim.ComeBack(); return nil }, nil
	}
	link := s.reals[id].Link()
	return func() error { return link.Heal(context.WithoutCancel(ctx)) }, link.Cut(ctx)
}

// lostRepositories lists the repositories that LoseBundles steps remove from the registry, one in each step. %s is a
// runtime ID.
var lostRepositories = []string{"runtimes/%s", "documents", "reports/%s", "trust", "runtimes", "reports"}

// removeRepositories removes the repositories for one step from the registry, as a failing disk or a wrong retention
// policy would.
func (s *stage) removeRepositories(step Step) error {
	name := lostRepositories[(step.Serial-1)%len(lostRepositories)]
	if filepath.Base(name) == "%s" {
		name = fmt.Sprintf(name, s.shape.All()[step.Serial%len(s.shape.All())])
	}
	path := filepath.Join(s.registryData(), "docker/registry/v2/repositories/fleet", name)
	away := filepath.Join(s.registry.Dir(), fmt.Sprint("lost-", step.Serial))
	s.story.Add("the registry loses %s", name)
	if err := os.Rename(path, away); err != nil && !errors.Is(err, os.ErrNotExist) { // already removed
		return err
	}
	s.checker.BundlesLost(s.since())
	return os.RemoveAll(away)
}

// registryCopy returns the folder for a copy of the registry's data, on the same file system as the data.
func (s *stage) registryCopy(serial int) string {
	return filepath.Join(s.registry.Dir(), fmt.Sprint("copy-", serial))
}

func (s *stage) registryData() string { return filepath.Join(s.registry.Dir(), "data") }

func (s *stage) copyRegistry() error {
	return s.whileRegistryStands(func() error { return os.CopyFS(s.registryCopy(0), os.DirFS(s.registryData())) })
}

func (s *stage) whileRegistryStands(change func() error) error {
	if err := s.registry.Stop(); err != nil {
		return err
	}
	return errors.Join(change(), s.registry.Resume())
}

// restore replaces the registry's data with an older copy.
func (s *stage) restore(serial int) error {
	s.story.Add("the registry gets copy %d of its data", serial-1)
	return s.whileRegistryStands(func() error {
		if err := os.Rename(s.registryData(), s.registryCopy(serial)); err != nil {
			return err
		}
		s.checker.BundlesLost(s.since())
		return os.Rename(s.registryCopy(serial-1), s.registryData())
	})
}

func (s *stage) takeLease(ctx context.Context, only bool) error {
	s.checker.TookLease(s.since())
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: lease}}
	if only {
		return client.IgnoreNotFound(s.fleet.Control.Delete(ctx, object))
	}
	if err := s.fleet.Control.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return client.IgnoreNotFound(err)
	}
	object.Spec.HolderIdentity, object.Spec.RenewTime = new("somebody"), new(metav1.NowMicro())
	return s.fleet.Control.Update(ctx, object)
}

// insist repeats a user's action until it succeeds, because an active fault can make it fail. If the action still fails
// after retryTimeout, insist records a violation.
func (s *stage) insist(ctx context.Context, what string, do func() error) {
	s.insistFor(ctx, retryTimeout, what, do)
}

func (s *stage) insistFor(ctx context.Context, timeout time.Duration, what string, do func() error) {
	var last error
	err := fleet.Until(ctx, timeout, what, func() (bool, string) {
		last = do()
		return last == nil || errors.Is(last, errImpossible), fmt.Sprint(last)
	})
	switch {
	case err != nil:
		s.story.Add("FAILED: %v", err)
		s.checker.Break(s.since(), Converged, "%s: %v", what, err)
	case last != nil:
		s.story.Add("skipped: %s: %v", what, last)
	}
}

const retryTimeout = 2 * time.Minute
