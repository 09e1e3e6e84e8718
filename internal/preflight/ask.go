package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// Cluster queries an API server. It changes nothing in the cluster.
type Cluster struct {
	clients
	times *Times
	name  string
}

// clients contains only the required API clients. A complete clientset would add 9 MB to the agent.
type clients struct {
	identity  authenticationclient.SelfSubjectReviewsGetter
	rights    *authorizationclient.AuthorizationV1Client
	discovery rest.Interface
}

func newClients(config *rest.Config) (clients, error) {
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return clients{}, err
	}
	identity, err := authenticationclient.NewForConfigAndClient(config, shared)
	if err != nil {
		return clients{}, err
	}
	rights, err := authorizationclient.NewForConfigAndClient(config, shared)
	if err != nil {
		return clients{}, err
	}
	documents, err := discovery.NewDiscoveryClientForConfigAndClient(config, shared)
	if err != nil {
		return clients{}, err
	}
	return clients{identity, rights, documents.RESTClient()}, nil
}

// Connect returns a Cluster. It does not send requests.
func Connect(config *rest.Config, name string, times *Times) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.Wrap(times.Wrap)
	all, err := newClients(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", name, err)
	}
	return &Cluster{all, times, name}, nil
}

// CheckReachable checks whether the API server responds and accepts the credentials, and compares clocks. If answers is
// false, callers must skip the other checks.
func (c *Cluster) CheckReachable(ctx context.Context) (findings []Finding, answers bool) {
	check := "API server of " + c.name
	review, err := c.identity.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		return []Finding{Fail(check, "the API server does not accept these credentials: "+err.Error(),
			"check the kubeconfig, or the ServiceAccount of the Pod")}, false
	case err != nil:
		return []Finding{Fail(check, err.Error(), "check the kubeconfig, the network and its policies")}, false
	}
	ahead, known := c.times.Ahead()
	return []Finding{newPassed(check, "responds to user %s", review.Status.UserInfo.Username),
		Clock("the API server", ahead, known)}, true
}

// CheckRights checks the permissions in the RBAC files dir/PART.yaml. advice returns the advice for a file
// with missing permissions.
func (c *Cluster) CheckRights(
	ctx context.Context, files fs.FS, dir string, parts []string, namespaces map[string]string,
	advice func(file string) string,
) []Finding {
	var findings []Finding
	for _, part := range parts {
		file := dir + "/" + part + ".yaml"
		permissions, err := Permissions(files, file, namespaces)
		if err != nil {
			findings = append(findings, Fail("rights, "+part, err.Error(), ""))
			continue
		}
		findings = append(findings, c.CheckPermissions(ctx, part, permissions, advice(file)))
	}
	return findings
}

// CheckPermissions checks whether the API server grants all permissions. part is the name of their RBAC
// file without its extension.
func (c *Cluster) CheckPermissions(ctx context.Context, part string, permissions []Permission, advice string) Finding {
	denied, err := c.listDenied(ctx, permissions)
	if err != nil {
		return Fail("rights, "+part, err.Error(), "")
	}
	return Rights(part, len(permissions), denied, advice)
}

// reviewWorkers is the number of parallel permission reviews.
const reviewWorkers = 8

// listDenied returns the denied permissions in the order of permissions.
func (c *Cluster) listDenied(ctx context.Context, permissions []Permission) ([]Permission, error) {
	isAllowed := make([]bool, len(permissions))
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(reviewWorkers)
	for i, p := range permissions {
		workers.Go(func() error {
			review, err := c.rights.SelfSubjectAccessReviews().Create(ctx, p.review(), metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("check the permission to %s: %w", p, err)
			}
			isAllowed[i] = review.Status.Allowed
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	var denied []Permission
	for i, p := range permissions {
		if !isAllowed[i] {
			denied = append(denied, p)
		}
	}
	return denied, nil
}

// ActsAs checks whether the agent can impersonate a ServiceAccount to install modules, and whether the account has
// any permissions.
func ActsAs(ctx context.Context, config *rest.Config, user string) Finding {
	check := "ServiceAccount " + user
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	account, err := newClients(config)
	if err != nil {
		return Fail(check, err.Error(), "")
	}
	_, err = account.identity.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return Fail(check, err.Error(),
			"allow the agent to impersonate it, for example with charts/skr-agent/rbac/module-account.yaml")
	}
	namespace, _, _ := strings.Cut(strings.TrimPrefix(user, "system:serviceaccount:"), ":")
	found, err := account.rights.SelfSubjectRulesReviews().
		Create(ctx, &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}, metav1.CreateOptions{})
	if err != nil {
		return Fail(check, err.Error(), "")
	}
	return Account(check, namespace, found.Status)
}

// Definitions checks whether the API server serves all kinds and fields in the CRD files in dir. worst is
// the result for a missing kind or field.
func (c *Cluster) Definitions(ctx context.Context, files fs.FS, dir string, worst Result, advice string) []Finding {
	definitions, err := Definitions(files, dir)
	if err != nil {
		return []Finding{Fail("definitions", err.Error(), "")}
	}
	var findings []Finding
	documents := map[string][]byte{}
	for _, d := range definitions {
		path := "/openapi/v3/apis/" + d.Group + "/" + d.Version
		document, asked := documents[path]
		if !asked {
			document, err = c.discovery.Get().AbsPath(path).
				SetHeader("Accept", "application/json").DoRaw(ctx)
			if apierrors.IsNotFound(err) {
				document, err = []byte("{}"), nil
			}
			if err != nil {
				findings = append(findings, Fail("definition "+d.CRD, fmt.Sprintf("read %s: %v", path, err), ""))
				continue
			}
			documents[path] = document
		}
		lacks, served, err := d.MissingFields(document)
		if err != nil {
			findings = append(findings, Fail("definition "+d.CRD, err.Error(), ""))
			continue
		}
		findings = append(findings, d.ServedFinding(served, lacks, worst, advice))
	}
	return findings
}

// Registry returns the finding for a request to a registry. The error is the request's error, or nil.
func Registry(check, location, what string, err error) Finding {
	if err == nil {
		return newPassed(check, "%s: %s", location, what)
	}
	status, answered := store.StatusOf(err)
	advice := "check the location, the network and its policies, and set --registry-ca if the registry's certificate " +
		"is signed by a private CA"
	switch {
	case errors.As(err, new(*store.RedirectError)):
		advice = "allow this host with --blob-host, or configure the registry to serve its blobs itself"
	case answered && status == http.StatusUnauthorized:
		advice = "set --registry-config to a docker config.json with the user and password of this program"
	case answered && status == http.StatusForbidden:
		advice = "grant the user the permissions listed in docs/guides/registry.md"
	case answered:
		advice = "check the registry's log"
	}
	return Fail(check, fmt.Sprintf("%s: %v", location, err), advice)
}
