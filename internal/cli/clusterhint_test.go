package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAPIServerErrorHintNamesTheFlag(t *testing.T) {
	const gone = "https://127.0.0.1:6443"
	noAnswer := func(path string) error {
		return &url.Error{
			Op: "Get", URL: gone + path, Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")},
		}
	}
	kymas := schema.GroupResource{Group: "operator.kyma-project.io", Resource: "kymas"}
	rollouts := schema.GroupVersionResource{Group: "fleet.kyma-project.io", Version: "v1alpha1"}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"API server is unreachable": {noAnswer("/api"), "no API server responds at " + gone},
		"API server is unreachable, request for a kind": {
			noAnswer("/apis/operator.kyma-project.io/v1beta2/kymas"), "no API server responds at " + gone,
		},
		"API server is unreachable through a proxy": {
			noAnswer("/k8s/clusters/c-1/api/v1/secrets"), "no API server responds at " + gone,
		},
		"registry is unreachable":   {noAnswer("/v2/api/manifests/desired"), "no registry responds at " + gone},
		"Git server is unreachable": {noAnswer("/team/api.git/info/refs"), ""},
		"credentials are invalid":   {apierrors.NewUnauthorized("Unauthorized"), "--token"},
		"user does not have the permission": {
			apierrors.NewForbidden(kymas, "", errors.New(`User "nobody" cannot list resource "kymas"`)),
			"grant the user this permission",
		},
		"admission refuses the request": {
			apierrors.NewForbidden(kymas, "berlin", errors.New("the quota is used up")), "",
		},
		"kind of the fleet API is not served": {
			&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "fleet.kyma-project.io", Kind: "Rollout"}},
			"this API server does not serve fleet.kyma-project.io: select the right cluster",
		},
		"resource of the fleet API is not served": {
			&meta.NoResourceMatchError{PartialResource: rollouts},
			"this API server does not serve fleet.kyma-project.io",
		},
		"misspelled resource": {
			&meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: "deplyo"}},
			"`kubectl api-resources` lists",
		},
		"object is not found": {apierrors.NewNotFound(kymas, "berlin"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hint(fmt.Errorf("list Kymas: %w", c.err)); !strings.Contains(got, c.want) || c.want == "" &&
				got != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
