package controlplane

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

type failingReader struct {
	client.Reader
	get, list error
}

func (r failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return r.get
}

func (r failingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return r.list
}

// `status --watch` prints a missing warning as resolved, so a failed read must not remove warnings.
func TestWatchKeepsWarningAfterFailedRead(t *testing.T) {
	expires := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for name, api := range map[string]failingReader{
		"the record of the Git commit cannot be read": {get: errors.New("time-out")},
		"the Leases cannot be read":                   {list: errors.New("time-out")},
		"the record and the Leases cannot be read":    {get: errors.New("time-out"), list: errors.New("time-out")},
	} {
		around := fleet.Input{Held: "a commit is being applied", RootExpires: expires}
		err := ReadCircumstances(t.Context(), api, corev1.NamespaceDefault, &around)
		if err == nil || around.Held == "" || !around.RootExpires.Equal(expires) {
			t.Errorf("%s: got %v, held %q, root expiry %s; want an error and unchanged input", name, err,
				around.Held, around.RootExpires)
		}
	}
	around := fleet.Input{Held: "a commit is being applied", RootExpires: expires}
	if err := ReadCircumstances(t.Context(), failingReader{}, corev1.NamespaceDefault, &around); err != nil ||
		around.Held != "" || !around.RootExpires.IsZero() {
		t.Errorf("successful reads: got %v, held %q, root expiry %s; want empty input", err, around.Held,
			around.RootExpires)
	}
}

func TestInvalidPoliciesAreWarnings(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	policy := func(name, expression string) *v1alpha1.RolloutPolicy {
		check := v1alpha1.Check{Name: "ready", CEL: &v1alpha1.CELCheck{Expression: expression}}
		wave := v1alpha1.Wave{Name: "all", Percent: new(int32(100)), Checks: []v1alpha1.Check{check}}
		return &v1alpha1.RolloutPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: name},
			Spec:       v1alpha1.RolloutPolicySpec{Course: v1alpha1.Course{Waves: []v1alpha1.Wave{wave}}},
		}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(policy("good", "true"), policy("typo", "objcts == []")).Build()
	var in fleet.Input
	if err := ReadCircumstances(t.Context(), api, DefaultNamespace, &in); err != nil {
		t.Fatal(err)
	}
	all := fleet.PolicyWarnings(in)
	const field = "RolloutPolicy typo is invalid, so its rollouts do not start: spec.waves[0].checks[0].cel.expression"
	if len(all) != 1 || !strings.HasPrefix(all[0].Message, field) ||
		all[0].Advice != "correct the field: kubectl edit rolloutpolicy -n kcp-system typo" {
		t.Errorf("got %+v, want one warning with the field", all)
	}
}

func TestPoliciesWithoutModulesAreWarnings(t *testing.T) {
	scheme, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	policy := func(name string, modules ...string) *v1alpha1.RolloutPolicy {
		return &v1alpha1.RolloutPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: name},
			Spec: v1alpha1.RolloutPolicySpec{Modules: modules, Course: v1alpha1.Course{
				Waves: []v1alpha1.Wave{{Name: "all", Percent: new(int32(100))}}}},
		}
	}
	meta := &v1beta2.ModuleReleaseMeta{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "keda"},
		Spec: v1beta2.ModuleReleaseMetaSpec{ModuleName: "keda"}}
	api := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(meta, policy("all"), policy("some", "keda", "kedda"), policy("typo", "kedda", "kda")).Build()
	var in fleet.Input
	if err := ReadCircumstances(t.Context(), api, DefaultNamespace, &in); err != nil {
		t.Fatal(err)
	}
	all := fleet.PolicyWarnings(in)
	const want = "RolloutPolicy typo applies to no module: no ModuleReleaseMeta in namespace kcp-system has the module " +
		"kedda or kda"
	if len(all) != 1 || all[0].Message != want || all[0].Situation != fleet.PolicyUnmatched ||
		!strings.HasPrefix(all[0].Advice, "correct spec.modules: kubectl edit rolloutpolicy -n kcp-system typo") {
		t.Errorf("got %+v, want one warning with the modules", all)
	}
}
