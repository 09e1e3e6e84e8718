package fleet

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
)

// The client's scheme must contain CRDs. Otherwise, it cannot decode the response when a CRD is deleted.
func TestClientsCanDeleteCRDs(t *testing.T) {
	api, err := connect(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	kind := apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	if !api.Scheme().Recognizes(kind) {
		t.Errorf("the clients of fleets do not know %s", kind)
	}
}
