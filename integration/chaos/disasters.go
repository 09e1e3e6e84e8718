package chaos

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// snapshot returns the path of the newest snapshot of an API server. The run takes all snapshots when the fleet has
// converged for the first time. At that time, every runtime has module scaler in FirstVersion, and no runtime has
// module mailer. After CloneRuntime, the run takes a new snapshot of the runtime.

func (s *stage) snapshot(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return filepath.Join(s.dir, "snapshots", fmt.Sprint(name, "-", s.snapshots[name]))
}

// takeSnapshot replaces a runtime's snapshot. Callers can repeat a failed call.
func (s *stage) takeSnapshot(id string) error {
	s.mu.Lock()
	s.snapshots[id]++
	s.mu.Unlock()
	if err := s.reals[id].Backup(s.snapshot(id)); err != nil {
		return fmt.Errorf("take a snapshot of %s: %w", id, err)
	}
	return nil
}

// hasSnapshots reports whether a step in the plan needs a snapshot.
func (s *stage) hasSnapshots() bool {
	return slices.ContainsFunc(s.plan, func(p Step) bool {
		return p.Kind == RestoreRuntime || p.Kind == RestoreControl || p.Kind == CloneRuntime
	})
}

// takeSnapshots copies all API servers' data.
func (s *stage) takeSnapshots() error {
	if !s.hasSnapshots() {
		return nil
	}
	for id := range s.reals {
		if err := s.takeSnapshot(id); err != nil {
			return err
		}
	}
	return s.fleet.BackUpControlPlane(s.snapshot(fleet.ControlPlane))
}

// startDisaster starts one of the steps that Shape.Disasters adds. The function end ends the step. It is nil if the
// step is instantaneous. ok is false for all other steps.
func (s *stage) startDisaster(ctx context.Context, step Step) (end func() error, ok bool, err error) {
	api := func() client.Client { return s.reals[step.Target].API }
	switch step.Kind {
	case RestoreRuntime:
		err = s.restoreRuntime(ctx, step.Target)
	case RestoreControl:
		err = s.restoreControl(ctx)
	case CloneRuntime:
		end, err = s.clone(ctx, step.Target)
	case DeleteNamespace:
		err = s.deleteNamespace(ctx, step.Target)
	case DeleteManifests:
		s.checker.CRDDeleted(s.since(), step.Target)
		err = client.IgnoreNotFound(api().Delete(ctx, metadataOf(definition(manifests))))
	case StopServing:
		err = stopServing(ctx, api())
	case LimitObjects:
		end = func() error { return unlimit(context.WithoutCancel(ctx), api()) }
		err = limit(ctx, api())
	case RefuseObjects:
		end = func() error { return acceptObjects(context.WithoutCancel(ctx), api()) }
		err = refuseObjects(ctx, api())
	default:
		return nil, false, nil
	}
	return end, true, err
}

// restoreRuntime restores a runtime's API server from its snapshot. The runtime's admin then repeats the requests that
// were made after the snapshot.
func (s *stage) restoreRuntime(ctx context.Context, id string) error {
	requests := s.requestsMailer(id)
	done := s.checker.Restoring(id)
	s.checker.RequestWithdrawn(s.since(), id, mailer)
	err := s.reals[id].Restore(s.snapshot(id))
	done(s.since())
	if err != nil {
		return err
	}
	s.insist(ctx, "repeat the requests of "+id, func() error { return s.editKyma(ctx, id, requests) })
	return nil
}

// restoreControl restores the control plane from its snapshot. An operator then recreates the Kymas that were created
// after the snapshot, and repeats deletions that had not reached their runtimes.
func (s *stage) restoreControl(ctx context.Context) error {
	s.once.Lock()
	defer s.once.Unlock()
	s.releasing.Lock()
	defer s.releasing.Unlock()
	s.restoredControl = time.Now()
	done := s.checker.Restoring("")
	defer func() {
		s.checker.TookLease(s.since()) // the Lease in the snapshot has expired
		done(s.since())
	}()
	if err := s.fleet.RestoreControlPlane(s.snapshot(fleet.ControlPlane)); err != nil {
		return err
	}
	for id, sim := range s.simulated() {
		s.mu.Lock()
		gone := s.gone[id]
		s.mu.Unlock()
		if gone && len(sim.All()) == 0 {
			continue
		}
		s.insist(ctx, "create Kyma "+id+" again", func() error {
			return client.IgnoreAlreadyExists(s.fleet.Control.Create(ctx, newKyma(id)))
		})
		if gone { // the restore has undone a deletion that had not reached the runtime
			s.insist(ctx, "delete Kyma "+id+" again", func() error { return s.deleteAgain(ctx, id) })
		}
	}
	return nil
}

// deleteAgain deletes a recreated Kyma once the publisher has accepted the runtime's key.
func (s *stage) deleteAgain(ctx context.Context, id string) error {
	if err := s.checkKnown(ctx, id); err != nil {
		return err
	}
	return client.IgnoreNotFound(s.fleet.Control.Delete(ctx, newKyma(id)))
}

// checkKnown returns an error if a Kyma exists but the publisher has not accepted the runtime's key yet.
func (s *stage) checkKnown(ctx context.Context, id string) error {
	kyma, err := s.simulated()[id].Record(ctx)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if status := kyma.Status.Runtime; status == nil || status.Key == nil {
		return fmt.Errorf("the status of Kyma %s has no key yet", id)
	}
	return nil
}

// stopServing stops serving the only version of module scaler's kind.
func stopServing(ctx context.Context, api client.Client) error {
	patch := []byte(`[{"op": "replace", "path": "/spec/versions/0/served", "value": false}]`)
	err := api.Patch(ctx, metadataOf(definition(scalers)), client.RawPatch("application/json-patch+json", patch))
	return client.IgnoreNotFound(err)
}

// quotaName is the name of the ResourceQuota that prevents creating ConfigMaps and Secrets.
const quotaName = "no-more-objects"

// limit creates a ResourceQuota that prevents creating ConfigMaps and Secrets in the runtime.
func limit(ctx context.Context, api client.Client) error {
	most := corev1.ResourceList{
		"count/configmaps": resource.MustParse("0"), "count/secrets": resource.MustParse("0"),
	}
	return fleet.SetQuota(ctx, api, inKymaSystem(quotaName), most, most)
}

func unlimit(ctx context.Context, api client.Client) error {
	return client.IgnoreNotFound(api.Delete(ctx, &corev1.ResourceQuota{ObjectMeta: inKymaSystem(quotaName)}))
}

// settleTime is how long programs can still report the state from before a restore.
const settleTime = requestGrace

// Restoring announces that an API server is restored from an earlier snapshot. An empty runtime means the control
// plane. The checker ignores observations about this API server until the caller calls done. After that, it compares
// new observations only with each other.
func (c *Checker) Restoring(runtime string) (done func(at time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restoring[runtime]++
	if runtime == "" {
		clear(c.incomplete)            // the restore removes the reason for a refused commit
		for _, s := range c.runtimes { // the restore undoes suspensions and revocations
			s.suspendedAt = 0
			clear(s.revoked)
		}
	}
	return func(at time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.restoring[runtime]--
		c.restored[runtime] = at
		if runtime != "" {
			s := c.of(runtime)
			s.present, s.requests, s.instances = map[string]string{}, map[int64][]string{}, map[string]Reported{}
			clear(s.replacedKeys) // the restored runtime can have an earlier key again
			delete(c.objectsSeen, runtime)
			return
		}
		c.kymas, c.rollouts, c.previousRollouts, c.upgrades, c.downgrades = nil, map[string]string{}, nil, nil, nil
		for _, s := range c.runtimes {
			s.record, s.formerKeys, s.open, s.quarantinedSince = Record{}, map[string]bool{}, "", 0
		}
	}
}

// isRestored reports whether a runtime was restored so recently that its programs can still report the state from
// before the restore.
func (c *Checker) isRestored(at time.Duration, runtime string) bool {
	when, restored := c.restored[runtime]
	return c.restoring[runtime] > 0 || restored && at-when < settleTime
}
