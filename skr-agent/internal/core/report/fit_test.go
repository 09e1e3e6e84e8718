package report

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

// manyModules returns a runtime with many modules, each with a long error message. Its Kyma requests these modules and
// some unknown modules.
func manyModules(modules, unknown, nameLength int) Facts {
	name := func(kind string, i int) string {
		base := fmt.Sprintf("%s-%04d", kind, i)
		return base + strings.Repeat("x", max(0, nameLength-len(base)))
	}
	facts := Facts{
		Kyma: &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: v1beta2.KymaSpec{Channel: "regular"}},
	}
	for i := range modules {
		m := v1beta2.Manifest{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: v1beta2.RuntimeNamespace,
				Name:      name("module", i),
				Labels:    map[string]string{v1beta2.LabelChannel: "regular"},
			},
			Spec: v1beta2.ManifestSpec{Version: "1.2.3"},
		}
		m.Status.State = v1beta2.StateError
		m.Status.Conditions = []metav1.Condition{{Type: v1beta2.ConditionReady, Message: strings.Repeat("<why> ", 100)}}
		facts.Manifests = append(facts.Manifests, m)
	}
	for i := range modules + unknown {
		kind := "module"
		if i >= modules {
			kind = "unknown"
		}
		facts.Kyma.Spec.Modules = append(facts.Kyma.Spec.Modules, v1beta2.Module{
			Name: name(kind, i), Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
		})
	}
	return facts
}

func TestEveryReportFitsTheSizeLimit(t *testing.T) {
	signer := trusttest.NewSigner(t)
	for name, c := range map[string]struct {
		facts Facts
		want  bundle.Truncated
	}{
		"20 failing modules":                {manyModules(20, 0, 0), bundle.Truncated{}},
		"90 failing modules":                {manyModules(90, 0, 0), bundle.Truncated{}},
		"500 failing modules with messages": {manyModules(500, 0, 0), bundle.Truncated{Messages: true}},
		"500 modules and requests of 600 unknown modules": {
			manyModules(500, 600, 0), bundle.Truncated{Messages: true, Requested: 1100},
		},
		"5 modules and requests of 611 unknown modules": {manyModules(5, 611, 0), bundle.Truncated{Requested: 616}},
		"modules over the limit of a report": {
			manyModules(520, 0, 0), bundle.Truncated{Messages: true, Modules: 20, Requested: 520},
		},
		"500 modules with long names": {manyModules(500, 0, 60), bundle.Truncated{Messages: true, Objects: true}},
		"500 modules with names of maximum length": {
			manyModules(500, 0, bundle.MaxModuleNameBytes), bundle.Truncated{
				Messages: true, Objects: true, Modules: 50, Requested: 500,
			},
		},
		"requested module with a name over the limit": {
			manyModules(0, 1, bundle.MaxModuleNameBytes+1), bundle.Truncated{Requested: 1},
		},
		"installed module with a name over the limit": {
			manyModules(1, 0, bundle.MaxModuleNameBytes+1), bundle.Truncated{Modules: 1, Requested: 1},
		},
		"100 modules and requests of 450 unknown modules": {manyModules(100, 450, 0), bundle.Truncated{Requested: 550}},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := json.Marshal(c.facts)
			if err != nil {
				t.Fatal(err)
			}
			report := New("one", c.facts)
			report.Sequence, report.Time = 1, time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
			report.Certificate, report.CertificateRequest = strings.Repeat("c", 4000), strings.Repeat("r", 2000)
			manifest, err := bundle.ComposeReport(report, signer)
			if err != nil {
				t.Fatal(err)
			}
			got, err := bundle.VerifyReport(bundle.Fetched(manifest), bundle.Reporter{
				Runtime: "one", Key: trusttest.PublicKey(t, signer),
			})
			if err != nil {
				t.Fatal(err)
			}
			left := bundle.Truncated{}
			if got.Truncated != nil {
				left = *got.Truncated
			}
			if left != c.want {
				t.Errorf("got omitted parts %+v, want %+v", left, c.want)
			}
			if n := len(got.Modules) + left.Modules; n != len(c.facts.Manifests) {
				t.Errorf("got %d reported and omitted modules, want %d", n, len(c.facts.Manifests))
			}
			for _, m := range got.Modules {
				if m.State != v1beta2.StateError || m.Version != "1.2.3" {
					t.Fatalf("got module %s %s in state %s, want version 1.2.3 in state Error", m.Name, m.Version, m.State)
				}
			}
			if asked := len(got.Kyma.Spec.Modules) + left.Requested; asked != len(c.facts.Kyma.Spec.Modules) ||
				got.Kyma.Generation != 7 {
				t.Errorf("got %d requested and omitted modules of generation %d, want %d of generation 7", asked,
					got.Kyma.Generation, len(c.facts.Kyma.Spec.Modules))
			}
			if after, err := json.Marshal(c.facts); err != nil || string(after) != string(before) {
				t.Errorf("New must not change the facts: %v", err)
			}
		})
	}
}

// With 500 modules, the report is too large only if they have default CRs. The report then omits objects.
func TestFiveHundredModulesAreReported(t *testing.T) {
	signer, ctx := trusttest.NewSigner(t), t.Context()
	folder, err := store.Open(store.LayoutScheme+filepath.Join(t.TempDir(), "registry"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		defaultCR *unstructured.Unstructured
		place     store.Store
		left      *bundle.Truncated
	}{
		"modules without default CRs": {nil, store.NewMemory(), nil},
		"modules with default CRs": {&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "operator.kyma-project.io/v1alpha1", "kind": "Module",
			"metadata": map[string]any{"name": "default"},
		}}, folder, &bundle.Truncated{Objects: true}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := manyModules(bundle.MaxManifests, 0, 16)
			for i := range facts.Manifests {
				m := &facts.Manifests[i]
				m.Generation, m.Status.State, m.Status.Conditions, m.Spec.Resource = 3, v1beta2.StateReady, nil,
					c.defaultCR
			}
			report := New("one", facts)
			report.Sequence, report.Time = 1, time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
			report.Certificate, report.CertificateRequest = strings.Repeat("c", 4000), strings.Repeat("r", 2000)
			manifest, err := bundle.ComposeReport(report, signer)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("the manifest of the report is %d bytes", len(manifest.Bytes))
			if err := store.PushReport(ctx, c.place, "one", manifest); err != nil {
				t.Fatal(err)
			}
			repository, err := c.place.Reading(ctx, bundle.ReportRepository("one"))
			if err != nil {
				t.Fatal(err)
			}
			fetched, err := store.Fetch(ctx, repository, bundle.TagLatest)
			if err != nil {
				t.Fatal(err)
			}
			got, err := bundle.VerifyReport(fetched, bundle.Reporter{
				Runtime: "one", Key: trusttest.PublicKey(t, signer),
			})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Truncated, c.left) || len(got.Modules) != bundle.MaxManifests ||
				len(got.Kyma.Spec.Modules) != bundle.MaxManifests {
				t.Fatalf("got %d reported and %d requested modules, omitted parts %+v, want %d modules each",
					len(got.Modules), len(got.Kyma.Spec.Modules), got.Truncated, bundle.MaxManifests)
			}
			for _, m := range got.Modules {
				if m.State != v1beta2.StateReady || (m.Manifest == nil) != (c.left != nil) {
					t.Fatalf("got module %+v, want state Ready", m)
				}
			}
		})
	}
}

func TestUrgentModulesAreOmittedLast(t *testing.T) {
	facts := manyModules(3, 0, 0)
	for i, state := range []v1beta2.State{v1beta2.StateReady, v1beta2.StateError, v1beta2.StateReady} {
		facts.Manifests[i].Status.State, facts.Manifests[i].Status.Conditions = state, nil
	}
	whole := New("one", facts)
	data, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	got := shrinkToFit(whole, len(data)/4)
	if len(got.Modules) != 1 || got.Modules[0].Name != "module-0001" ||
		*got.Truncated != (bundle.Truncated{Objects: true, Modules: 2, Requested: 3}) {
		t.Errorf("got modules %+v and omitted parts %+v, want only module-0001", got.Modules, got.Truncated)
	}
}

func TestTwoManifestsOfOneModuleAreReportedOnce(t *testing.T) {
	facts := manyModules(2, 0, 0)
	facts.Manifests[0].Labels[v1beta2.LabelModuleName], facts.Manifests[1].Labels[v1beta2.LabelModuleName] = "keda",
		"keda"
	facts.Manifests[0].Status.State = v1beta2.StateReady
	got := New("one", facts)
	if len(got.Modules) != 1 || got.Modules[0].State != v1beta2.StateError || got.Truncated != nil {
		t.Errorf("got modules %+v and omitted parts %+v, want one module in state Error", got.Modules, got.Truncated)
	}
}

// An empty controller name matches ModuleTemplates with any controller name, so the agent must not shorten a long name
// to an empty name.
func TestLongControllerNameMatchesNoController(t *testing.T) {
	facts := manyModules(1, 0, 0)
	facts.Kyma.Spec.Modules[0].ControllerName = strings.Repeat("x", 10*bundle.MaxModuleNameBytes)
	got := New("one", facts).Kyma.Spec.Modules[0].ControllerName
	if len(got) != bundle.MaxModuleNameBytes {
		t.Errorf("got a controller name of %d bytes, want %d", len(got), bundle.MaxModuleNameBytes)
	}
}

// An admin must be able to remove modules, so reports always contain the request of the runtime's Kyma.
func TestAdminCanReduceTooManyModules(t *testing.T) {
	signer := trusttest.NewSigner(t)
	for _, installed := range []int{200, 1000} {
		for _, nameLength := range []int{0, 60, bundle.MaxModuleNameBytes} {
			facts := manyModules(installed, 0, nameLength)
			facts.Kyma.Spec.Modules = facts.Kyma.Spec.Modules[:100]
			facts.Trouble = &bundle.ReportedTrouble{
				Reason:  v1beta2.ReasonObjectRefused,
				Message: strings.Repeat("x", bundle.MaxMessageBytes),
			}
			report := New("one", facts)
			report.Sequence, report.Time = 1, time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
			report.Certificate, report.CertificateRequest = strings.Repeat("c", 4000), strings.Repeat("r", 2000)
			manifest, err := bundle.ComposeReport(report, signer)
			if err != nil {
				t.Fatalf("failed to compose the report of %d modules: %v", installed, err)
			}
			got, err := bundle.VerifyReport(bundle.Fetched(manifest), bundle.Reporter{
				Runtime: "one", Key: trusttest.PublicKey(t, signer),
			})
			if err != nil {
				t.Fatalf("failed to verify the report of %d modules: %v", installed, err)
			}
			if got.OmitsRequest() || len(got.Kyma.Spec.Modules) != 100 || got.Trouble == nil {
				t.Errorf("%d modules with names of %d bytes: got %d requested modules and omitted parts %+v, want 100",
					installed, nameLength, len(got.Kyma.Spec.Modules), *got.Truncated)
			}
			if count := len(got.Modules) + got.Truncated.Modules; count != installed {
				t.Errorf("got %d reported and omitted modules, want %d", count, installed)
			}
		}
	}
}
