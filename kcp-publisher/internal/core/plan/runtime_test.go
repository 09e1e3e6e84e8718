package plan

import (
	"crypto"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestRemovalsAreNotConfirmedWithoutAReport(t *testing.T) {
	kyma := kymaOf("one")
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{
		Observed: &v1beta2.ObservedBundle{Digest: "sha256:last", ClusterUID: "c"},
	}
	// After a restart and before the first report, the publisher does not know which modules are installed.
	if r := (Rules{}).Runtime(kyma, nil); r.Observed != "" || r.Audience.ClusterUID != "c" {
		t.Errorf("without a report: got %+v, want cluster c and no observed bundle", r)
	}
	report := &bundle.AcceptedReport{Report: bundle.Report{
		Observed: &bundle.Observed{Digest: "sha256:last"}, Modules: []bundle.ReportedModule{{Name: "keda"}},
	}}
	if r := (Rules{}).Runtime(kyma, report); r.Observed != "sha256:last" ||
		!slices.Equal(r.Installed, []string{"keda"}) {
		t.Errorf("with a report: got %+v, want the observed bundle and module keda", r)
	}
}

func TestReportsOfUnknownModulesAddLimitedRemovals(t *testing.T) {
	kyma := kymaOf("one")
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Published: &v1beta2.PublishedBundle{
		Versions: map[string]string{"keda": "1.0.0"}, Removals: []string{"zz-removed"},
	}}
	before := statements{removals: []string{"zz-removed"}}
	decided, now := []v1beta2.ModuleRemoval(nil), noon
	for round := range 20 {
		var modules []bundle.ReportedModule
		for i := range bundle.MaxManifests {
			modules = append(modules, bundle.ReportedModule{Name: fmt.Sprintf("invented-%d-%d", round, i)})
		}
		report := &bundle.AcceptedReport{Report: bundle.Report{Modules: modules}}
		pending := before.nextRemovals(nil, nil, (Rules{}).Runtime(kyma, report))
		if len(pending) > bundle.MaxManifests || !slices.Contains(pending, "zz-removed") {
			t.Fatalf("got %d removals, want at most %d with the last bundle's removal", len(pending), bundle.MaxManifests)
		}
		decided = RemovalStatuses(decided, RemovalDecision{Allowed: pending}, nil, now)
		for i := range decided {
			decided[i].Published = true
		}
		now = now.Add(time.Minute)
		decided = RemovalStatuses(decided, RemovalDecision{}, nil, now)
	}
	if len(decided) > maxRecentRemovals {
		t.Errorf("got %d recorded decisions, want at most %d", len(decided), maxRecentRemovals)
	}
}

// The publisher must not encrypt Secrets for a revoked key.
func TestRevokedKeyIsNotUsed(t *testing.T) {
	file, err := trust.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.LoadSigner(file)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signer.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	data, err := trusttest.NewRoot(signer, []crypto.PublicKey{key}, noon.AddDate(1, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	root, err := trust.ParseRoot(data)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := trust.EncodePublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	rules, kyma := Rules{Root: root}, kymaOf("one")
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{Key: &v1beta2.RuntimeKey{Thumbprint: "t", PublicKey: encoded}}
	if r := rules.Runtime(kyma, nil); r.Key == nil {
		t.Error("an enrolled runtime has no key")
	}
	kyma.Annotations = map[string]string{v1beta2.AnnotationRevokedKeys: "t"}
	if r := rules.Runtime(kyma, nil); r.Key != nil {
		t.Error("the revoked key is used for Secrets")
	}
}
