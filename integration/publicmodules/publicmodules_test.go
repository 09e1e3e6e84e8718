// Package publicmodules installs, upgrades and removes public projects as modules, with the commands that module teams
// and operators use. The clusters have no nodes, so the test simulates the modules' own operators.
package publicmodules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const (
	// limit is the time limit for an installation, an upgrade or a removal.
	limit = 10 * time.Minute
	// restTime is longer than the simulated operators' interval.
	restTime = 5 * time.Second
)

// TestSampleModulePassesTrial in package try tests the same steps with the sample module.
func TestPublicModulesAreInstalledUpgradedAndRemoved(t *testing.T) {
	suite.Long(t)
	log.SetLogger(logr.Discard())
	for _, m := range modules {
		t.Run(m.name, func(t *testing.T) {
			dirs := [2]string{t.TempDir(), t.TempDir()}
			for i, r := range []release{m.from, m.to} {
				if err := m.prepare(t.Context(), r, dirs[i]); err != nil {
					t.Skip(err)
				}
			}
			f := startFleet(t)
			m.checkRefusals(t, f, dirs[0])
			m.create(t, f, m.from, dirs[0])
			m.create(t, f, m.to, dirs[1])
			m.check(t, f)
		})
	}
}

func TestReferenceListsTestedModules(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/tested-modules.md")
	must(t, err)
	for _, m := range modules {
		if row := fmt.Sprintf("| %s | %s, %s |", m.name, m.from.version, m.to.version); !strings.Contains(string(page), row) {
			t.Errorf("docs/reference/tested-modules.md has no row %q", row)
		}
	}
}

func startFleet(t *testing.T) *fleet.Fleet {
	t.Helper()
	f, err := fleet.Start(t.Context(), fleet.Options{
		Progress: os.Stderr, TimeLimit: limit, Endpoints: true, AgentRights: []string{"agent.yaml"},
	})
	must(t, err)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (m module) component() string { return "example.org/module/" + m.name }

// checkRefusals checks that `component create` refuses the paths in m.refused.
func (m module) checkRefusals(t *testing.T, f *fleet.Fleet, dir string) {
	t.Helper()
	for path, message := range m.refused {
		output, code := fleet.Run(t.Context(), f.Binaries().Publisher, "component", "create", m.component()+":0.0.1",
			"--from", filepath.Join(dir, path), "--to", f.Components())
		if code != 1 || !strings.Contains(output, message) {
			t.Errorf("component create --from %s: exit code %d, want 1 and %q:\n%s", path, code, message, output)
		}
	}
}

// create packages a release as a component, and adds its ModuleTemplate to the control plane.
func (m module) create(t *testing.T, f *fleet.Fleet, r release, dir string) {
	t.Helper()
	template := filepath.Join(t.TempDir(), "template.yaml")
	args := []string{
		"component", "create", m.component() + ":" + r.version, "--from", filepath.Join(dir, m.content), "--to",
		f.Components(), "--module-template", template,
	}
	for _, flag := range m.flags {
		args = append(args, r.fill(flag))
	}
	output, code := fleet.Run(t.Context(), f.Binaries().Publisher, args...)
	if code != 0 {
		t.Fatalf("component create %s:%s: exit code %d:\n%s", m.component(), r.version, code, output)
	}
	t.Log(output)
	for _, o := range readObjects(t, template) {
		must(t, f.Control.Create(t.Context(), o))
	}
}

// trial is one module in one runtime.
type trial struct {
	module
	fleet   *fleet.Fleet
	runtime *fleet.Runtime
	users   []*unstructured.Unstructured
}

// check installs, upgrades and removes the module in a new runtime.
func (m module) check(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	ctx := t.Context()
	r, err := f.AddRuntime(ctx, m.name, "regular")
	must(t, err)
	tr := &trial{module: m, fleet: f, runtime: r, users: readObjects(t, filepath.Join("testdata", m.name, "user.yaml"))}
	t.Cleanup(func() {
		if t.Failed() {
			tr.explain(t)
		}
	})
	(&operators{api: r.API, server: startServer(t), converts: m.converts}).start(t)
	must(t, r.UntilAccepted(ctx, "True", v1beta2.ReasonAccepted))
	tr.grantRights(t)
	empty := tr.inventory(t)

	t.Logf("Install %s.", m.from.version)
	tr.promote(t, m.from)
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{
			Name: m.name, Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	}))
	must(t, r.UntilState(ctx, m.name, m.from.version, v1beta2.StateReady))
	tr.createUserObjects(t)
	old := tr.checkRest(t)
	before := tr.inventory(t)

	t.Logf("Upgrade to %s.", m.to.version)
	tr.promote(t, m.to)
	must(t, r.UntilState(ctx, m.name, m.to.version, v1beta2.StateReady))
	current := tr.checkRest(t)
	after := tr.inventory(t)
	must(t, replaced(tr.data(before), before, after))
	for _, name := range missing(old, current) {
		if _, found := after[name]; found {
			t.Errorf("%s is not part of %s, but was not deleted", name, m.to.version)
		}
	}

	t.Log("Remove the module.")
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = nil }))
	tr.deleteUserObjects(t)
	must(t, r.UntilGone(ctx, m.name))
	tr.checkRemoved(t, empty)
}

// grantRights gives the agent only the permissions that `component role` prints.
func (tr *trial) grantRights(t *testing.T) {
	t.Helper()
	output, code := fleet.Run(t.Context(), tr.fleet.Binaries().Publisher, "component", "role",
		tr.component()+":"+tr.from.version, tr.component()+":"+tr.to.version, "--components", tr.fleet.Components())
	if code != 0 {
		t.Fatalf("component role: exit code %d:\n%s", code, output)
	}
	for _, o := range decode(t, []byte(output)) {
		must(t, tr.runtime.API.Create(t.Context(), o))
	}
}

func (tr *trial) promote(t *testing.T, r release) {
	t.Helper()
	must(t, tr.fleet.Release(t.Context(), tr.name, tr.component(), sample.Channel("regular", r.version)))
}

func (tr *trial) inventory(t *testing.T) map[string]identity {
	t.Helper()
	all, err := inventory(t.Context(), tr.runtime)
	must(t, err)
	return all
}

// createUserObjects creates objects as the module's users do. Webhooks and CRDs can need some time to work.
func (tr *trial) createUserObjects(t *testing.T) {
	t.Helper()
	for _, o := range tr.users {
		must(t, fleet.Until(t.Context(), time.Minute, "a user creates "+nameOf(o), func() (bool, string) {
			err := tr.runtime.API.Create(t.Context(), o.DeepCopy())
			return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
		}))
	}
}

// data returns the objects in an inventory that an upgrade must not delete: the users' objects, CRDs, and their custom
// resources.
func (tr *trial) data(all map[string]identity) []string {
	var names []string
	for name := range all {
		if strings.HasPrefix(name, "CustomResourceDefinition.") {
			names = append(names, name)
		}
	}
	for _, o := range tr.users {
		names = append(names, nameOf(o))
	}
	return names
}

// checkRest checks that the module is still Ready after some reconciles, without an error, and that the agent does not
// change its objects. It returns these objects.
func (tr *trial) checkRest(t *testing.T) map[string]identity {
	t.Helper()
	last, changed := tr.ownObjects(t), []string(nil)
	// The simulated operators and kwok write once after a change.
	err := wait.PollUntilContextTimeout(t.Context(), restTime, limit, false, func(context.Context) (bool, error) {
		now := tr.ownObjects(t)
		last, changed = now, changedIn(last, now)
		return len(changed) == 0, nil
	})
	if err != nil {
		t.Fatalf("objects of %s still change: %s: %v", tr.name, strings.Join(changed, ", "), err)
	}
	var manifest v1beta2.Manifest
	must(t, tr.runtime.API.Get(t.Context(), tr.manifestKey(), &manifest))
	if manifest.Status.State != v1beta2.StateReady {
		t.Errorf("the Manifest is %s, want Ready: %+v", manifest.Status.State, manifest.Status.Conditions)
	}
	if len(last) == 0 {
		t.Error("the Manifest lists no objects")
	}
	for name, found := range last {
		if found.uid == "" {
			t.Errorf("%s does not exist", name)
		}
	}
	var events corev1.EventList
	must(t, tr.runtime.API.List(t.Context(), &events, client.InNamespace(v1beta2.RuntimeNamespace)))
	for _, e := range events.Items {
		if e.Reason == v1beta2.ReasonDriftCorrected {
			t.Errorf("the agent overwrote fields of another program: %s (%d times)", e.Message, max(1, e.Count))
		}
	}
	for _, c := range manifest.Status.Conditions {
		if c.Status != "True" {
			t.Logf("condition %s is %s (%s): %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	return last
}

func (tr *trial) manifestKey() client.ObjectKey {
	return client.ObjectKey{Namespace: v1beta2.RuntimeNamespace, Name: tr.name}
}

// ownObjects returns the objects in the Manifest's inventory. An object that does not exist has an empty identity.
func (tr *trial) ownObjects(t *testing.T) map[string]identity {
	t.Helper()
	var manifest v1beta2.Manifest
	must(t, tr.runtime.API.Get(t.Context(), tr.manifestKey(), &manifest))
	all, listed, own := map[string]identity{}, map[schema.GroupKind]bool{}, map[string]identity{}
	for _, s := range manifest.Status.Synced {
		kind := schema.GroupKind{Group: s.Group, Kind: s.Kind}
		if !listed[kind] {
			must(t, addObjects(t.Context(), tr.runtime, kind.WithVersion(s.Version), all))
			listed[kind] = true
		}
		name := objectName(kind, client.ObjectKey{Namespace: s.Namespace, Name: s.Name})
		own[name] = all[name]
	}
	return own
}

// deleteUserObjects checks that the removal waits for the users' custom resources, and deletes all users' objects.
func (tr *trial) deleteUserObjects(t *testing.T) {
	t.Helper()
	if tr.hasCustomResources() {
		must(t, fleet.Until(t.Context(), limit, "the removal waits for users' custom resources", tr.waitsForUsers))
	}
	now := tr.inventory(t)
	for _, o := range tr.users {
		if _, found := now[nameOf(o)]; !found {
			t.Errorf("the removal deleted the user's %s", nameOf(o))
		}
		must(t, client.IgnoreNotFound(tr.runtime.API.Delete(t.Context(), o.DeepCopy())))
	}
}

// waitsForUsers reports whether the removal waits until users delete their custom resources.
func (tr *trial) waitsForUsers() (bool, string) {
	var manifest v1beta2.Manifest
	if err := tr.runtime.API.Get(context.Background(), tr.manifestKey(), &manifest); err != nil {
		return false, err.Error()
	}
	ready := meta.FindStatusCondition(manifest.Status.Conditions, v1beta2.ConditionReady)
	return ready != nil && ready.Reason == v1beta2.ReasonCustomResourcesExist, fmt.Sprint(ready)
}

func (tr *trial) hasCustomResources() bool {
	for _, o := range tr.users {
		if o.GroupVersionKind().Group != "networking.k8s.io" {
			return true
		}
	}
	return false
}

// checkRemoved checks that the runtime contains only the objects that it contained before, and objects that must be
// kept.
func (tr *trial) checkRemoved(t *testing.T, empty map[string]identity) {
	t.Helper()
	kept := 0
	must(t, fleet.Until(t.Context(), time.Minute, "only expected objects are left", func() (bool, string) {
		all := tr.inventory(t)
		kept = 0
		left := slices.DeleteFunc(missing(all, empty), func(name string) bool {
			if all[name].isKept {
				kept++
			}
			return all[name].isKept || isAgents(name)
		})
		return len(left) == 0, "left: " + strings.Join(left, ", ")
	}))
	if tr.keepsCRDs != (kept > 0) {
		t.Errorf("%d objects with helm.sh/resource-policy: keep are left, want some: %t", kept, tr.keepsCRDs)
	}
}

// isAgents reports whether an object belongs to the agent. These objects are the catalog and the documents of the
// latest bundle.
func isAgents(name string) bool {
	kind, _, _ := strings.Cut(name, " ")
	return strings.HasSuffix(kind, "."+v1beta2.Group) || strings.HasPrefix(name, "Secret kyma-system/kyma-pull-content-")
}

// explain logs a failure's causes.
func (tr *trial) explain(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	why, _ := tr.fleet.Why(ctx, tr.runtime.ID, tr.name)
	t.Logf("why: %s", why)
	agent := tr.runtime.Agent().Log()
	t.Logf("agent: %s", agent[max(0, len(agent)-8000):])
}

func nameOf(o *unstructured.Unstructured) string {
	return objectName(o.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(o))
}

func readObjects(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return decode(t, data)
}

func decode(t *testing.T, data []byte) (all []*unstructured.Unstructured) {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
