package account

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

func TestPodLogIsReadWithinLimits(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		for range 1000 {
			_, _ = w.Write([]byte(strings.Repeat("x", 1023) + "\n"))
		}
	}))
	defer server.Close()
	pods, err := newPodClient(&rest.Config{Host: server.URL}, server.Client())
	require.NoError(t, err)
	text, err := (&Account{pods: pods}).Log(t.Context(), "kyma-system", "keda-1", "app", true)
	require.NoError(t, err)
	require.Len(t, text, loggedBytes)
	require.Equal(t,
		"/api/v1/namespaces/kyma-system/pods/keda-1/log?container=app&limitBytes=16384&previous=true&tailLines=25",
		asked)
}

func TestCRDIsRecreatedOnlyIfAllErrorsAreImmutableFields(t *testing.T) {
	crd := schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	fixed := field.Invalid(field.NewPath("spec", "scope"), "Cluster", "field is immutable")
	broken := field.Required(field.NewPath("spec", "versions").Index(0).Child("schema"), "schemas are required")
	require.True(t, namesImmutableFields(apierrors.NewInvalid(crd, "x", field.ErrorList{fixed})))
	require.False(t, namesImmutableFields(apierrors.NewInvalid(crd, "x", field.ErrorList{fixed, broken})))
	require.False(t, namesImmutableFields(apierrors.NewInvalid(crd, "x", nil)))
	require.False(t, namesImmutableFields(errors.New("field is immutable")))
}

func TestPolicyAndQuotaDenialsAreNotMissingPermissions(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for text, want := range map[string]bool{
		`User "a" cannot create resource "pods" in API group ""`:                     true,
		`exceeded quota: small, requested: pods=1`:                                   false,
		`admission webhook "policy.example" denied the request: latest tags`:         false,
		`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: latest tags`: false,
		`expression 'object.x == 'y'' resulted in error: no such key: x`:             false,
	} {
		if got := LacksRight(apierrors.NewForbidden(pods, "x", errors.New(text))); got != want {
			t.Errorf("%s: got lacksRight %t, want %t", text, got, want)
		}
	}
	if LacksRight(errors.New("pods is forbidden")) {
		t.Error("lacksRight must be false for an error that is not an API status")
	}
}

func TestAPIServerErrorsAreReadable(t *testing.T) {
	job := object.JobKind
	type podTemplate struct{ A, B map[string]string }
	err := apierrors.NewInvalid(
		job,
		"x",
		field.ErrorList{
			field.Invalid(field.NewPath("spec", "template"), podTemplate{A: map[string]string{"a": "b"}},
				"field is immutable"),
		},
	)
	require.Equal(t, "Job kyma-system/x: spec.template: field is immutable",
		ObjectError{Key: guard.Key{Group: "batch", Kind: "Job", Namespace: "kyma-system", Name: "x"}, Err: err}.Error())
	short := apierrors.NewInvalid(job, "x", field.ErrorList{
		field.Invalid(field.NewPath("spec", "clusterIP"), "1.2.3.4", "field is immutable"),
	})
	require.Equal(t, `spec.clusterIP: Invalid value: "1.2.3.4": field is immutable`, apiMessage(short))
	require.Equal(t, "no", apiMessage(errors.New("no")))
}

func TestErrorsCausedByModuleAreNotTemporary(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"value of the wrong type": {
			apierrors.NewInternalError(
				errors.New(
					"failed to create typed patch object (kyma-system/x; /v1, Kind=ConfigMap): .data.a: expected " +
						"string, got &value.valueUnstructured{Value:1}")), false,
		},
		"field is not in the schema": {
			apierrors.NewInternalError(errors.New(".spec.b: field not declared in schema")), false,
		},
		"webhook is unavailable": {
			apierrors.NewInternalError(
				errors.New(`failed calling webhook "x": failed to call webhook: Post "https://x": connection refused`)),
			true,
		},
		"API is unavailable": {apierrors.NewServiceUnavailable("x"), true},
		"too many requests":  {apierrors.NewTooManyRequestsError("x"), true},
		"API server timeout": {apierrors.NewTimeoutError("x", 1), true},
		"Forbidden response": {apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no")), false},
	} {
		if got := IsTransient(fmt.Errorf("apply: %w", c.err)); got != c.want {
			t.Errorf("%s: got isTransient %t, want %t", name, got, c.want)
		}
	}
}

func TestModuleNameWithNamespaceSelectsAccount(t *testing.T) {
	rules, err := guard.ParseAccounts([]string{"team/keda=installer"}, "kyma-system")
	require.NoError(t, err)
	const user = "system:serviceaccount:kyma-system:installer"
	accounts := Set{rules, map[string]*Account{"": {}, user: {User: user}}}
	m := &v1beta2.Manifest{}
	m.Name, m.Labels = "team-keda", map[string]string{v1beta2.LabelModuleName: "team-keda"}
	m.Annotations = map[string]string{v1beta2.AnnotationModule: "team/keda"}
	require.Equal(t, user, accounts.Of(m).User)
	m.Annotations[v1beta2.AnnotationModule] = "team/other"
	require.Empty(t, accounts.Of(m).User)
}
