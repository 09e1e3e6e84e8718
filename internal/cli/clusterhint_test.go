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

func TestAPIServerRefusalNamesTheFlag(t *testing.T) {
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
		"no API server answers": {noAnswer("/api"), "no API server answers at " + gone},
		"none answers a request for a kind": {
			noAnswer("/apis/operator.kyma-project.io/v1beta2/kymas"), "no API server answers at " + gone,
		},
		"none answers behind a proxy": {
			noAnswer("/k8s/clusters/c-1/api/v1/secrets"), "no API server answers at " + gone,
		},
		"no registry answers":   {noAnswer("/v2/api/manifests/desired"), ""},
		"no Git server answers": {noAnswer("/team/api.git/info/refs"), ""},
		"the user is not known": {apierrors.NewUnauthorized("Unauthorized"), "--token"},
		"the user has no right": {
			apierrors.NewForbidden(kymas, "", errors.New(`User "nobody" cannot list resource "kymas"`)),
			"give the user that right",
		},
		"admission refuses": {
			apierrors.NewForbidden(kymas, "berlin", errors.New("the quota is used up")), "",
		},
		"a cluster without a fleet": {
			&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "fleet.kyma-project.io", Kind: "Rollout"}},
			"this API server has no fleet.kyma-project.io: name the right cluster",
		},
		"a cluster without a fleet, by resource": {
			&meta.NoResourceMatchError{PartialResource: rollouts}, "this API server has no fleet.kyma-project.io",
		},
		"a kind that is misspelled": {
			&meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: "deplyo"}},
			"`kubectl api-resources` lists",
		},
		"a name that is not found": {apierrors.NewNotFound(kymas, "berlin"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hint(fmt.Errorf("list Kymas: %w", c.err)); !strings.Contains(got, c.want) || c.want == "" &&
				got != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
