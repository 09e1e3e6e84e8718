package try

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// attempt is the state of one run.
type attempt struct {
	options       Options
	module        module
	fleet         *fleet.Fleet // nil until start has started it
	canary, other *fleet.Runtime
	// before contains the objects of the older version after its installation. after contains the objects of the newer
	// version after its installation.
	before, after []object
	// rollout is the name of the newest Rollout.
	rollout string
}

// step is one event, such as an upgrade. The text in checks describes the expected properties of the module in one
// sentence.
type step struct {
	name, checks string
	happens      func(context.Context) error
}

func (a *attempt) steps() []step {
	from, to := a.module.from, a.module.to
	return []step{
		{"start", "control plane, registry and publisher run; the publisher can read both versions", a.start},
		{"install " + from, "the module is Ready in both runtimes, and all its objects exist", a.install},
		{"upgrade to " + to,
			"canary first, although its agent is killed, then the other runtime; Ready in both", a.upgrade},
		{"prune", "objects that " + to + " does not contain are deleted from both runtimes", a.pruned},
		{"drift", "the agent creates a deleted object again and reverts a changed field", a.drift},
		{"registry down",
			"while the registry is down, no object is replaced, and agents still revert drift", a.checkWithoutRegistry},
		{"undo", "the rollout is undone: both runtimes are Ready with exactly the objects of " + from, a.undo},
		{"upgrade again",
			"the rollout runs again from its first wave; Ready in both runtimes, objects are pruned", a.waitForRetry},
		{"remove", "all objects of the module are deleted, including its default CR and CRDs", a.remove},
	}
}

// Names of the two runtimes and their channel.
const (
	canary  = "canary"
	other   = "other"
	channel = "regular"
)

func (a *attempt) runtimes() []*fleet.Runtime { return []*fleet.Runtime{a.canary, a.other} }

// inBoth calls check with both runtimes and joins the errors.
func (a *attempt) inBoth(check func(*fleet.Runtime) error) error {
	return errors.Join(check(a.canary), check(a.other))
}

func (a *attempt) start(ctx context.Context) error {
	o, m := a.options, a.module
	if a.fleet = o.Fleet; a.fleet == nil {
		flags := slices.Clone(o.RegistryFlags)
		for _, source := range m.components {
			flags = append(flags, "--components", source)
		}
		a.fleet = fleet.New(fleet.Options{
			Dir: o.Dir, Progress: o.Progress, TimeLimit: o.ReadyWithin, PublisherFlags: flags, Clusters: o.Clusters,
			Environment: o.Environment,
		})
		if err := a.fleet.Up(ctx); err != nil {
			return err
		}
	}
	if err := a.addToCatalog(ctx); err != nil {
		return err
	}
	if err := a.fleet.CreatePolicy(ctx, m.name, twoWaves(o.ReadyWithin)); err != nil {
		return err
	}
	return a.promote(ctx, m.from)
}

// addToCatalog adds both versions to the control plane's catalog.
func (a *attempt) addToCatalog(ctx context.Context) error {
	for _, v := range a.module.samples {
		// An earlier try on the same fleet may have created the ModuleTemplate.
		if err := a.fleet.Offer(ctx, v); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for _, t := range a.module.templates {
		args := []string{"component", "show", a.module.component + ":" + t.Spec.Version}
		for _, source := range a.module.components {
			args = append(args, "--components", source)
		}
		if output, code := fleet.Run(ctx, a.fleet.Binaries().Publisher,
			append(args, a.options.RegistryFlags...)...); code != 0 {
			return fmt.Errorf("read component %s:%s: %s", a.module.component, t.Spec.Version, output)
		}
		if err := a.fleet.Control.Create(ctx, t); err != nil {
			return fmt.Errorf("create ModuleTemplate %s: %w", t.Name, err)
		}
	}
	return nil
}

func (a *attempt) promote(ctx context.Context, version string) error {
	return a.fleet.Release(ctx, a.module.name, a.module.component, sample.Channel(channel, version))
}

func (a *attempt) install(ctx context.Context) error {
	for i, id := range []string{canary, other} {
		r, err := a.runtime(ctx, i, id)
		if err != nil {
			return err
		}
		if id == canary {
			a.canary = r
		} else {
			a.other = r
		}
	}
	var err error
	a.before, err = a.waitInstalled(ctx, a.module.from)
	return err
}

// runtime adds the module to a runtime's Kyma and labels the Kyma for a wave. It creates a runtime if the try started
// the fleet.
func (a *attempt) runtime(ctx context.Context, i int, wave string) (*fleet.Runtime, error) {
	if a.options.Fleet == nil {
		kyma := fleet.NewKyma(wave, channel, a.module.name)
		kyma.Labels[labelStage] = wave
		if err := a.fleet.Control.Create(ctx, kyma); err != nil {
			return nil, fmt.Errorf("create Kyma %s: %w", wave, err)
		}
		return a.fleet.AddRuntime(ctx, wave, channel, a.module.name)
	}
	r := a.options.Runtimes[i]
	if err := a.label(ctx, r, wave); err != nil {
		return r, err
	}
	return r, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{
			Name: a.module.name, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	})
}

// label labels the runtime's Kyma with a wave. An empty wave removes the label.
func (a *attempt) label(ctx context.Context, r *fleet.Runtime, wave string) error {
	record, err := r.Record(ctx)
	if err != nil {
		return err
	}
	before := record.DeepCopy()
	delete(record.Labels, labelStage)
	if wave != "" {
		metav1.SetMetaDataLabel(&record.ObjectMeta, labelStage, wave)
	}
	return a.fleet.Control.Patch(ctx, record, client.MergeFrom(before))
}

// removeFromControlPlane removes the objects that the try created in the control plane.
func (a *attempt) removeFromControlPlane(ctx context.Context) error {
	if a.fleet == nil {
		return nil
	}
	c, in := a.fleet.Control, client.InNamespace(sample.Namespace)
	problems := []error{
		client.IgnoreNotFound(c.Delete(ctx, &v1alpha1.RolloutPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: sample.Namespace, Name: fleet.PolicyName},
		})),
		c.DeleteAllOf(ctx, &v1alpha1.Rollout{}, in),
		client.IgnoreNotFound(c.Delete(ctx, sample.Release(a.module.name, a.module.component))),
	}
	for _, r := range a.options.Runtimes {
		problems = append(problems, a.label(ctx, r, ""))
	}
	return errors.Join(problems...)
}

// waitInstalled waits until a version is Ready in both runtimes, checks that all its objects exist, and returns them.
func (a *attempt) waitInstalled(ctx context.Context, version string) ([]object, error) {
	var objects []object
	err := a.inBoth(func(r *fleet.Runtime) error {
		if err := r.UntilState(ctx, a.module.name, version, v1beta2.StateReady); err != nil {
			return err
		}
		var err error
		if objects, err = inventory(ctx, r, a.module.name); err != nil {
			return err
		}
		_, err = uids(ctx, r, objects)
		return err
	})
	return objects, err
}

func (a *attempt) pruned(ctx context.Context) error {
	return a.waitGone(ctx, withoutObjects(a.before, a.after))
}

// waitGone waits until the objects do not exist in either runtime.
func (a *attempt) waitGone(ctx context.Context, objects []object) error {
	return a.inBoth(func(r *fleet.Runtime) error {
		return fleet.Until(ctx, a.options.ReadyWithin, r.ID+" no longer has "+names(objects), func() (bool, string) {
			var there []object
			for _, o := range objects {
				found, err := read(ctx, r, o)
				if err != nil {
					return false, err.Error()
				}
				if found != nil {
					there = append(there, o)
				}
			}
			return len(there) == 0, "still existing: " + names(there)
		})
	})
}

func (a *attempt) remove(ctx context.Context) error {
	objects, err := inventory(ctx, a.canary, a.module.name)
	if err != nil {
		return err
	}
	err = a.inBoth(func(r *fleet.Runtime) error {
		if err := r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = nil }); err != nil {
			return fmt.Errorf("remove the module from the Kyma of %s: %w", r.ID, err)
		}
		return r.UntilGone(ctx, a.module.name)
	})
	if err != nil {
		return err
	}
	return a.waitGone(ctx, slices.DeleteFunc(objects, isSharedNamespace))
}

// isSharedNamespace reports whether an object is namespace kyma-system, which stays after a module's removal.
func isSharedNamespace(o object) bool {
	return o.Kind == "Namespace" && o.ObjectKey == client.ObjectKey{Name: v1beta2.RuntimeNamespace}
}

// explain adds the output of `kcp-publisher why` for both runtimes to an error.
func (a *attempt) explain(ctx context.Context, err error) error {
	if err == nil || a.canary == nil {
		return err
	}
	for _, r := range a.runtimes() {
		if r == nil {
			continue
		}
		// Without the output of why, return the error unchanged.
		if output, failed := a.fleet.Why(ctx, r.ID, a.module.name); failed == nil {
			err = fmt.Errorf("%w\nwhy %s: %s", err, r.ID, output)
		}
	}
	return err
}
