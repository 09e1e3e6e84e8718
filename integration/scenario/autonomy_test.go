package scenario

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// wishes adds scaler at the fast channel and mailer to the runtime's own Kyma, as its admin would.
func wishes(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	must(t, r.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = []v1beta2.Module{
			{Name: "scaler", Channel: "fast", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete},
			{Name: "mailer", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete},
		}
	}))
}

func TestRuntimeFollowsItsAdminWithoutControlPlane(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--agent-autonomy", "Catalog"}})
	free := runtimeWith(t, f, "free", map[string]string{"scaler": "1.7.0"})
	bound := runtimeWith(t, f, "bound", map[string]string{"scaler": "1.7.0"})
	record, err := bound.Record(ctx)
	must(t, err)
	change(t, f.Control, record, func(record *v1beta2.Kyma) {
		record.Annotations = map[string]string{v1beta2.AnnotationAutonomy: ""}
	})
	until(t, 60*time.Second, "bound has no offers any more", func() (bool, string) {
		fetched, err := bound.Desired(ctx)
		if err != nil {
			return false, err.Error()
		}
		repository, err := f.Place.Repository(ctx, "runtimes/bound")
		must(t, err)
		opened := theft{t, f, bound, repository}.opened()
		return len(opened.State.Offers) == 0, fmt.Sprint(len(fetched.Bytes))
	})
	settle(t, f)
	f.Publisher().Stop()

	wishes(t, free)
	wishes(t, bound)
	until(t, 60*time.Second, "the free one follows its admin", func() (bool, string) {
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
	until(t, 60*time.Second, "the bound one reports the reason for waiting", func() (bool, string) {
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
	until(t, 60*time.Second, "the control plane has answered", func() (bool, string) {
		kyma, err := free.Kyma(ctx)
		must(t, err)
		statement, err := inForce(t, free)
		return err == nil && statement.Predicate.KymaGeneration == kyma.Generation, fmt.Sprint(err)
	})
	settle(t, f)
	if after := generations(); after != before {
		t.Errorf("the control plane's answer installed anew: %s, then %s", before, after)
	}
}

// replaceKyma gives the runtime another Kyma of first generation, as `kubectl replace --force` does.
func replaceKyma(t *testing.T, r *fleet.Runtime, spec v1beta2.KymaSpec) {
	t.Helper()
	until(t, 30*time.Second, "the Kyma is another one", func() (bool, string) {
		old, err := r.Kyma(t.Context())
		must(t, client.IgnoreNotFound(err))
		if err == nil {
			must(t, client.IgnoreNotFound(r.API.Delete(t.Context(), old)))
		}
		next := &v1beta2.Kyma{Spec: spec}
		next.Namespace, next.Name, next.Labels = v1beta2.RuntimeNamespace, v1beta2.RuntimeKymaName, old.Labels
		err = r.API.Create(t.Context(), next)
		return err == nil && next.Generation == 1, fmt.Sprint(err) // the agent can have been faster
	})
}

func TestAutonomousRuntimeNeverGoesBack(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--agent-autonomy", "Catalog"}})
	r := runtimeWith(t, f, "free", map[string]string{"scaler": "1.7.0"})
	settle(t, f)
	f.Publisher().Stop()

	modules := func(names ...string) (all []v1beta2.Module) {
		for _, name := range names {
			all = append(all, managed(name))
		}
		return all
	}
	untilSaid := func(what, module, version, message string, sides ...func() (*v1beta2.Kyma, error)) {
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
			t.Errorf("%s: the Manifest is of %s, the module of %s", when, version, config.Data["version"])
		}
	}

	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Channel = "fast" }))
	must(t, fleet.Until(ctx, fleet.Generous, "channel fast brings 1.8.0", func() (bool, string) {
		config, err := settings(ctx, r)
		return err == nil && config.Data["version"] == "1.8.0", fmt.Sprint(config.Data, err)
	}))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Channel = "regular" }))
	untilSaid("the runtime reports that it stays", "scaler", "1.8.0",
		"stays at version 1.8.0: in the bundle in force there is 1.7.0, which is older", runtime)
	notDowngraded("back at channel regular")

	replaceKyma(t, r, v1beta2.KymaSpec{Channel: "regular", Modules: modules("mailer", "scaler")})
	untilSaid("what a Kyma asks for that was replaced counts", "mailer", "1.0.0", "", runtime)
	untilSaid("and nothing goes back by it", "scaler", "1.8.0", "stays at version 1.8.0", runtime)
	notDowngraded("with a Kyma that was replaced")
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = modules("scaler") }))
	until(t, 60*time.Second, "a chosen module is removed when it is no longer requested", func() (bool, string) {
		err := r.API.Get(ctx, inKyma("mailer"), &v1beta2.Manifest{})
		return client.IgnoreNotFound(err) == nil && err != nil, fmt.Sprint(err)
	})

	must(t, f.StartPublisher())
	untilSaid("both sides say that it stays", "scaler", "1.8.0", "stays at version 1.8.0", runtime, record)
	until(t, 60*time.Second, "the bundle in force has what is installed", func() (bool, string) {
		kyma, err := r.Record(ctx)
		must(t, err)
		published := kyma.Status.Runtime.Published
		return published.Versions["scaler"] == "1.8.0" && kyma.Status.Runtime.Observed.Digest == published.Digest,
			fmt.Sprintf("%+v", published)
	})
	notDowngraded("after the control plane's answer")
	if kyma, err := r.Record(ctx); err != nil || len(kyma.Status.Runtime.Published.RolledBackFrom) != 0 {
		t.Errorf("%v, a rollback was stated: %+v", err, kyma.Status.Runtime.Published)
	}
}
