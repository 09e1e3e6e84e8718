package cli

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// apiServerPath matches the path of a request to an API server. A proxy can add a prefix before /api.
var apiServerPath = regexp.MustCompile(`/api(/v1|s|)(/|$)`)

// clusterHint returns advice for connection errors with a registry, and for connection and authorization errors with an
// API server. It returns "" for other errors.
func clusterHint(err error) string {
	if advice := registryHint(err); advice != "" {
		return advice
	}
	if server := unreachable(err); server != "" {
		return "no API server responds at " + server +
			": check that it is running, or select another one with --kubeconfig, --context or --server"
	}
	if apierrors.IsUnauthorized(err) {
		return "the API server does not accept these credentials: select others with --kubeconfig, --context or --token"
	}
	// A denial by an admission policy has the same status code, but needs no hint, because its message contains the
	// reason.
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "is forbidden: User ") {
		return "grant the user this permission, or select another user with --kubeconfig or --context"
	}
	group, missing := notServed(err)
	switch {
	case !missing:
		return ""
	case strings.HasSuffix(group, "kyma-project.io"):
		return "this API server does not serve " + group +
			": select the right cluster with --kubeconfig or --context, or install the chart"
	}
	return "`kubectl api-resources` lists the kinds that the API server serves"
}

// unreachable returns the API server's address if the connection failed, or "" for other errors.
func unreachable(err error) string {
	to := failedConnection(err)
	if to == nil || isRegistryPath(to.Path) || !apiServerPath.MatchString(to.Path) {
		return ""
	}
	return to.Scheme + "://" + to.Host
}

// registryHint returns advice for connection errors with a registry, or "" for other errors.
func registryHint(err error) string {
	to := failedConnection(err)
	if to == nil || !isRegistryPath(to.Path) {
		return ""
	}
	return "no registry responds at " + to.Scheme + "://" + to.Host +
		": check that it is running, and that its host and port are correct"
}

// failedConnection returns the URL of a request whose connection failed, or nil for other errors.
func failedConnection(err error) *url.URL {
	var request *url.Error
	if !errors.As(err, &request) || !errors.As(err, new(*net.OpError)) {
		return nil
	}
	to, err := url.Parse(request.URL)
	if err != nil {
		return nil
	}
	return to
}

func isRegistryPath(path string) bool { return strings.HasPrefix(path, "/v2/") }

// notServed reports whether an error means that the API server does not serve a kind. It also returns the kind's API
// group.
func notServed(err error) (group string, missing bool) {
	var kind *meta.NoKindMatchError
	if errors.As(err, &kind) {
		return kind.GroupKind.Group, true
	}
	var resource *meta.NoResourceMatchError
	if errors.As(err, &resource) {
		return resource.PartialResource.Group, true
	}
	return "", false
}
