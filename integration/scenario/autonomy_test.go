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

// wishes lets the runtime's admin ask for scaler at the fast channel, and for mailer.
func wishes(t *testing.T, r *fleet.Runtime) {
	t.Helper()
	must(t, r.EditKyma(t.Context(), func(spec *v1beta2.KymaSpec) {
		spec.Modules = []v1beta2.Module{
			{Name: "scaler", Channel: "fast", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete},
			{Name: "mailer", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete},
		}
	}))
}

func TestARuntimeFollowsItsAdminWhileTheControlPlaneIsAway(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{PublisherFlags: []string{"--agent-autonomy", "Catalog"}})
	free := runtimeWith(t, f, "free", map[string]string{"scaler": "1.7.0"})
	bound := runtimeWith(t, f, "bound", map[string]string{"scaler": "1.7.0"})
	record, err := bound.Record(ctx)
	must(t, err)
	record.Annotations = map[string]string{v1beta2.AnnotationAutonomy: ""}
	must(t, f.Control.Update(ctx, record))
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
	until(t, 60*time.Second, "the bound one says what it waits for", func() (bool, string) {
		kyma, err := bound.Kyma(ctx)
		return err == nil && strings.Contains(fmt.Sprint(kyma.Status.Modules), "waiting for the control plane"), fmt.Sprint(err)
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
