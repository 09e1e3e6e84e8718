package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// editModules edits the Kyma as the runtime's admin: it requests scaler from the channel "fast", and mailer.
func editModules(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	must(t, r.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = []v1beta2.Module{
			{Name: "scaler", Channel: "fast", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete},
			{Name: "mailer", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete},
		}
	}))
}

func TestRuntimeAppliesAdminChangesWithoutControlPlane(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--agent-autonomy", "Catalog"}})
	free := runtimeWith(t, f, "free", map[string]string{"scaler": "1.7.0"})
	bound := runtimeWith(t, f, "bound", map[string]string{"scaler": "1.7.0"})
	record, err := bound.Record(ctx)
	must(t, err)
	change(t, f.Control, record, func(record *v1beta2.Kyma) {
		record.Annotations = map[string]string{v1beta2.AnnotationAutonomy: ""}
	})
	until(t, 60*time.Second, "runtime bound has no ModuleTemplates", func() (bool, string) {
		fetched, err := bound.Desired(ctx)
		if err != nil {
			return false, err.Error()
		}
		repository, err := f.Place.Repository(ctx, "runtimes/bound")
		must(t, err)
		opened := stolenKeyAttack{t, f, bound, repository}.verifiedBundle()
		return len(opened.State.Offers) == 0, fmt.Sprint(len(fetched.Bytes))
	})
	untilQuiet(t, f)
	f.Publisher().Stop()

	editModules(t, free)
	editModules(t, bound)
	until(t, 60*time.Second, "runtime free applies its admin's changes", func() (bool, string) {
		kyma, err := free.Kyma(ctx)
		if err != nil {
			return false, err.Error()
		}
		ready := map[string]string{}
		for _, m := range kyma.Status.Modules {
			if m.State == v1beta2.StateReady {
				ready[m.Name] = m.Version
			}
		}
		return ready["scaler"] == "1.8.0" && ready["mailer"] == "1.0.0", fmt.Sprint(ready)
	})
	until(t, 60*time.Second, "runtime bound reports why its changes wait", func() (bool, string) {
		kyma, err := bound.Kyma(ctx)
		return err == nil && strings.Contains(fmt.Sprint(kyma.Status.Modules), "waiting for the control plane"),
			fmt.Sprint(err)
	})
	generations := func() string {
		var manifests v1beta2.ManifestList
		must(t, free.API.List(ctx, &manifests, client.InNamespace(v1beta2.RuntimeNamespace)))
		var all []string
		for _, m := range manifests.Items {
			all = append(all, fmt.Sprintf("%s %s %d", m.Name, m.UID, m.Generation))
		}
		return strings.Join(all, ", ")
	}
	before := generations()
	must(t, f.StartPublisher())
	must(t, bound.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
	until(t, 60*time.Second, "the control plane publishes the requested modules", func() (bool, string) {
		kyma, err := free.Kyma(ctx)
		must(t, err)
		statement, err := inForce(t, free)
		return err == nil && statement.Predicate.KymaGeneration == kyma.Generation, fmt.Sprint(err)
	})
	untilQuiet(t, f)
	if after := generations(); after != before {
		t.Errorf("the control plane's bundle changed installed objects: %s, then %s", before, after)
	}
}

// replaceKyma replaces the Kyma in the runtime as `kubectl replace --force` does.
func replaceKyma(t *testing.T, r *fleet.Runtime, spec v1beta2.KymaSpec) {
	t.Helper()
	until(t, 30*time.Second, "the Kyma is replaced", func() (bool, string) {
		old, err := r.Kyma(t.Context())
		must(t, client.IgnoreNotFound(err))
		if err == nil {
			must(t, client.IgnoreNotFound(r.API.Delete(t.Context(), old)))
		}
		next := &v1beta2.Kyma{Spec: spec}
		next.Namespace, next.Name, next.Labels = v1beta2.RuntimeNamespace, v1beta2.RuntimeKymaName, old.Labels
		err = r.API.Create(t.Context(), next)
		// An error means that the agent recreated the Kyma first.
		return err == nil && next.Generation == 1, fmt.Sprint(err)
	})
}

func TestAutonomousRuntimeNeverDowngradesModules(t *testing.T) {
	suite.Long(t) // the short suite runs TestModuleChoicesNeverDowngrade
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--agent-autonomy", "Catalog"}})
	r := runtimeWith(t, f, "free", map[string]string{"scaler": "1.7.0"})
	untilQuiet(t, f)
	f.Publisher().Stop()

	modules := func(names ...string) (all []v1beta2.Module) {
		for _, name := range names {
			all = append(all, managed(name))
		}
		return all
	}
	untilMessage := func(what, module, version, message string, sides ...func() (*v1beta2.Kyma, error)) {
		t.Helper()
		until(t, 60*time.Second, what, func() (bool, string) {
			for _, side := range sides {
				kyma, err := side()
				if err != nil {
					return false, err.Error()
				}
				if m := moduleOf(kyma, module); m.Version != version || !strings.Contains(m.Message, message) {
					return false, fmt.Sprintf("%s: %+v", kyma.Namespace, m)
				}
			}
			return true, ""
		})
	}
	runtime := func() (*v1beta2.Kyma, error) { return r.Kyma(ctx) }
	record := func() (*v1beta2.Kyma, error) { return r.Record(ctx) }
	notDowngraded := func(when string) {
		t.Helper()
		config, err := settings(ctx, r)
		must(t, err)
		if version := installedVersion(t, r, "scaler"); version != "1.8.0" || config.Data["version"] != "1.8.0" {
			t.Errorf("%s: the Manifest has version %s, the installed module has %s", when, version, config.Data["version"])
		}
	}

	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Channel = "fast" }))
	must(t, fleet.Until(ctx, fleet.LongTimeout, "version 1.8.0 of channel fast is installed", func() (bool, string) {
		config, err := settings(ctx, r)
		return err == nil && config.Data["version"] == "1.8.0", fmt.Sprint(config.Data, err)
	}))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Channel = "regular" }))
	untilMessage("the runtime reports that scaler keeps its version", "scaler", "1.8.0",
		"stays at version 1.8.0: the last accepted bundle has 1.7.0, which is older", runtime)
	notDowngraded("after the change to channel regular")

	// The control plane has not received a report about version 1.8.0 yet, so its next bundle has version 1.7.0.
	current, err := r.Desired(ctx)
	must(t, err)
	next := pushNewer(t, f, r, documentsOf(t, f, r, bundle.Blob(current)), publisherKey(t, f), func(*bundle.Predicate) {})
	must(t, r.Put(ctx, next))
	sequence := predicateOf(t, f, r, next).Sequence
	until(t, 60*time.Second, "the agent accepts a bundle with the older version", func() (bool, string) {
		statement, err := inForce(t, r)
		return err == nil && statement.Predicate.Sequence == sequence, fmt.Sprint(err, statement.Predicate.Sequence)
	})
	notDowngraded("after a newer bundle with the older version")

	replaceKyma(t, r, v1beta2.KymaSpec{Channel: "regular", Modules: modules("mailer", "scaler")})
	untilMessage("the request of the replaced Kyma takes effect", "mailer", "1.0.0", "", runtime)
	untilMessage("the module is not downgraded", "scaler", "1.8.0", "stays at version 1.8.0", runtime)
	notDowngraded("after the Kyma was replaced")
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = modules("scaler") }))
	until(t, 60*time.Second, "the module is removed after its request is withdrawn", func() (bool, string) {
		err := r.API.Get(ctx, inKyma("mailer"), &v1beta2.Manifest{})
		return client.IgnoreNotFound(err) == nil && err != nil, fmt.Sprint(err)
	})

	must(t, f.StartPublisher())
	untilMessage("both sides report the kept version", "scaler", "1.8.0", "stays at version 1.8.0", runtime, record)
	until(t, 60*time.Second, "the applied bundle contains the installed versions", func() (bool, string) {
		kyma, err := r.Record(ctx)
		must(t, err)
		published := kyma.Status.Runtime.Published
		return published.Versions["scaler"] == "1.8.0" && kyma.Status.Runtime.Observed.Digest == published.Digest,
			fmt.Sprintf("%+v", published)
	})
	notDowngraded("after the control plane published the request")
	if kyma, err := r.Record(ctx); err != nil || len(kyma.Status.Runtime.Published.RolledBackFrom) != 0 {
		t.Errorf("error %v, or the bundle unexpectedly declares a rollback: %+v", err, kyma.Status.Runtime.Published)
	}
}
