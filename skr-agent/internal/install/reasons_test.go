package install

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestLacksRightIgnoresPoliciesWebhooksAndQuotas(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for text, want := range map[string]bool{
		`User "a" cannot create resource "pods" in API group ""`:                     true,
		`exceeded quota: small, requested: pods=1`:                                   false,
		`admission webhook "policy.example" denied the request: latest tags`:         false,
		`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: latest tags`: false,
	} {
		if got := lacksRight(apierrors.NewForbidden(pods, "x", errors.New(text))); got != want {
			t.Errorf("%s: got lacksRight %t, want %t", text, got, want)
		}
	}
	if lacksRight(errors.New("pods is forbidden")) {
		t.Error("lacksRight must be false for an error that is not an API status")
	}
}
