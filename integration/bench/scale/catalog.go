package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const (
	offered       = 32 // number of modules in the catalog
	perRuntime    = 20
	commonModules = 8 // modules that every runtime has; promoting one of them changes all runtimes
	sets          = 8 // number of different module sets
	promotions    = 16
	channel       = "regular"
	writers       = 16 // the publisher's default concurrency
	otherVersions = 2
)

// moduleName returns the name of module i. Module names must not contain digits.
func moduleName(i int) string { return fmt.Sprintf("module-m%c%c", 'a'+i/10, 'a'+i%10) }

// promotedModule is the module that the bench promotes. Every runtime has it.
var promotedModule = moduleName(0)

func promotedVersion(i int) string { return fmt.Sprintf("1.%d.0", i) }

// moduleSet returns the modules of a runtime.
func moduleSet(runtime int) []string {
	set := runtime % sets
	var names []string
	for i := range commonModules {
		names = append(names, moduleName(i))
	}
	for i := range perRuntime - commonModules {
		names = append(names, moduleName(commonModules+(set*3+i)%(offered-commonModules)))
	}
	return names
}

// versionOf returns a module version with a CRD, a default CR, an operator and RBAC rules.
func versionOf(name, version string) sample.Version {
	v := sample.Scaler("1.8.0")
	kind := strings.ToUpper(name[:1]) + strings.ReplaceAll(name[1:], "-", "")
	rename := func(text string) string {
		return strings.NewReplacer("scalers", strings.ToLower(kind)+"s", "Scaler", kind, "kind: scaler", "kind: "+name,
			"singular: scaler", "singular: "+strings.ToLower(kind),
			"scaler", name, "1.8.0", version).Replace(text)
	}
	v.Module, v.Version, v.Manifest, v.DefaultCR, v.Manager = name, version, rename(v.Manifest), rename(v.DefaultCR),
		rename(v.Manager)
	return v
}

// pushCatalog pushes all versions of all modules and releases the first version of each module.
func (w *world) pushCatalog(ctx context.Context) error {
	modules, err := openStore("localhost:" + w.registry.port + "/" + modulesPath)
	if err != nil {
		return err
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range offered {
		group.Go(func() error {
			versions := otherVersions
			if moduleName(i) == promotedModule {
				versions = promotions
			}
			for number := range versions {
				v := versionOf(moduleName(i), promotedVersion(number))
				if err := v.Push(within, modules); err != nil {
					return err
				}
				if err := w.control.Create(within, v.Template()); err != nil {
					return fmt.Errorf("create the ModuleTemplate of %s %s: %w", v.Module, v.Version, err)
				}
			}
			return w.control.Create(within,
				sample.Release(moduleName(i), versionOf(moduleName(i), "").Component(),
					sample.Channel(channel, promotedVersion(0))))
		})
	}
	return group.Wait()
}

// promote sets the next version of the promoted module in its channel.
func (w *world) promote(ctx context.Context) error {
	if w.version+1 >= promotions {
		return fmt.Errorf("module %s: all %d versions are already promoted", promotedModule, promotions)
	}
	w.version++
	release := &v1beta2.ModuleReleaseMeta{}
	if err := w.control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: promotedModule},
		release); err != nil {
		return err
	}
	release.Spec.Channels = []v1beta2.ChannelVersion{sample.Channel(channel, promotedVersion(w.version))}
	return w.control.Update(ctx, release)
}

func runtimeID(i int) string { return fmt.Sprintf("runtime-%05d", i) }

func newKyma(i int) *v1beta2.Kyma { return fleet.NewKyma(runtimeID(i), channel, moduleSet(i)...) }

func openStore(location string) (store.Store, error) {
	registries, err := store.NewRegistries(store.Access{NoRetry: true})
	if err != nil {
		return nil, err
	}
	return store.Open(location, registries)
}
