package try

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func (a *attempt) drift(ctx context.Context) error {
	return a.inBoth(func(r *fleet.Runtime) error {
		return errors.Join(a.checkRecreation(ctx, r), a.checkDriftCorrection(ctx, r))
	})
}

// checkRecreation deletes an object of the module and waits until the agent has created it again and the module is
// Ready.
func (a *attempt) checkRecreation(ctx context.Context, r *fleet.Runtime) error {
	o, ok := objectToDelete(a.after)
	if !ok {
		return nil // deleting any object of this module could lose data
	}
	found, err := mustRead(ctx, r, o)
	if err != nil {
		return err
	}
	if err := r.API.Delete(ctx, found.DeepCopy()); err != nil {
		return fmt.Errorf("delete %s in %s: %w", o, r.ID, err)
	}
	return fleet.Until(ctx, a.options.ReadyWithin, fmt.Sprintf("%s exists again in %s after its deletion", o, r.ID),
		func() (bool, string) {
			now, err := read(ctx, r, o)
			if err != nil || now == nil || now.GetUID() == found.GetUID() {
				return false, fmt.Sprintf("exists: %t, error: %v", now != nil, err)
			}
			return isReady(ctx, r, a.module.name)
		})
}

// checkDriftCorrection changes a field of an object and waits until the agent has reverted the change.
func (a *attempt) checkDriftCorrection(ctx context.Context, r *fleet.Runtime) error {
	for _, o := range a.after {
		found, err := mustRead(ctx, r, o)
		if err != nil {
			return err
		}
		edited := found.DeepCopy()
		path := change(edited)
		if path == nil {
			continue
		}
		if err := r.API.Patch(ctx, edited, client.MergeFrom(found)); err != nil {
			return fmt.Errorf("change %s in %s: %w", o, r.ID, err)
		}
		want, _, _ := unstructured.NestedFieldNoCopy(found.Object, path...)
		return fleet.Until(ctx, a.options.ReadyWithin, fmt.Sprintf("%v of %s is reverted in %s", path, o, r.ID),
			func() (bool, string) {
				now, err := read(ctx, r, o)
				if err != nil || now == nil {
					return false, fmt.Sprintf("exists: %t, error: %v", now != nil, err)
				}
				have, _, _ := unstructured.NestedFieldNoCopy(now.Object, path...)
				if !equality.Semantic.DeepEqual(have, want) {
					return false, fmt.Sprint(have)
				}
				return isReady(ctx, r, a.module.name)
			})
	}
	return nil
}

// checkWithoutRegistry checks that the agents revert drift while the registry is stopped.
func (a *attempt) checkWithoutRegistry(ctx context.Context) (err error) {
	before := map[string]map[object]string{}
	for _, r := range a.runtimes() {
		if before[r.ID], err = a.identities(ctx, r); err != nil {
			return err
		}
	}
	if err := a.fleet.CutRegistry(); err != nil {
		return err
	}
	away := a.inBoth(func(r *fleet.Runtime) error {
		if err := a.checkDriftCorrection(ctx, r); err != nil {
			return err
		}
		now, err := a.identities(ctx, r)
		if err != nil {
			return err
		}
		for o, uid := range before[r.ID] {
			if now[o] != uid {
				err = errors.Join(err, fmt.Errorf("%s was replaced in %s while the registry was stopped", o, r.ID))
			}
		}
		return err
	})
	if err := errors.Join(away, a.fleet.HealRegistry()); err != nil {
		return err
	}
	_, err = a.waitInstalled(ctx, a.module.to)
	return err
}

func (a *attempt) identities(ctx context.Context, r *fleet.Runtime) (map[object]string, error) {
	found, err := uids(ctx, r, a.after)
	all := map[object]string{}
	for o, uid := range found {
		all[o] = string(uid)
	}
	return all, err
}
