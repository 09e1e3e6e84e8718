package account

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// listingCRD is a client that returns a CRD, and the given errors for lists of its objects.
type listingCRD struct {
	client.Client
	definition *unstructured.Unstructured
	errors     []error
}

func (l *listingCRD) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.(*unstructured.Unstructured).Object = l.definition.DeepCopy().Object
	return nil
}

func (l *listingCRD) List(context.Context, client.ObjectList, ...client.ListOption) error {
	err := l.errors[0]
	l.errors = l.errors[1:]
	return err
}

// An API server can list a version that it does not serve yet. The kind's objects may exist, so the agent must not
// delete the CRD.
func TestUnservedKindOfEstablishedCRDMayHaveObjects(t *testing.T) {
	unserved := apierrors.NewGenericServerResponse(http.StatusNotFound, "list", schema.GroupResource{}, "", "", 0, true)
	unconverted := apierrors.NewInternalError(errors.New("conversion failed"))
	const notServed = "objects of kind Thing that cannot be listed (not served yet)"
	for name, c := range map[string]struct {
		established string
		errors      []error
		want        string
	}{
		"no version is served":                {"True", []error{unserved, unserved}, notServed},
		"new CRD":                             {"False", []error{unserved, unserved}, ""},
		"second version is served":            {"True", []error{unserved, nil}, ""},
		"first version is not converted":      {"True", []error{unconverted, unserved}, "conversion failed"},
		"second version is not converted":     {"True", []error{unserved, unconverted}, "conversion failed"},
		"new CRD without a working converter": {"False", []error{unconverted, unserved}, "conversion failed"},
	} {
		t.Run(name, func(t *testing.T) {
			version := func(name string) any { return map[string]any{"name": name, "served": true, "storage": name == "v2"} }
			definition := &unstructured.Unstructured{Object: map[string]any{
				"spec": map[string]any{
					"group": "example.org", "names": map[string]any{"kind": "Thing"},
					"versions": []any{version("v1"), version("v2")},
				},
				"status": map[string]any{"conditions": []any{
					map[string]any{"type": "Established", "status": c.established},
				}},
			}}
			a := &Account{Client: &listingCRD{definition: definition, errors: c.errors}}
			found, err := a.Instances(t.Context(),
				v1beta2.Resource{GroupVersionKind: object.CRDKind, Name: "things.example.org"},
				func(guard.Key, *metav1.PartialObjectMetadata) bool { return false })
			require.NoError(t, err)
			if c.want == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Contains(t, found[0], c.want)
		})
	}
}
