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

// apiServerPath matches the path of a request to an API server, also behind a proxy with a path prefix. Paths of
// registries start with /v2/.
var apiServerPath = regexp.MustCompile(`/api(/v1|s|)(/|$)`)

// clusterHint returns advice for an API server that does not respond, rejects the user, or belongs to another cluster.
func clusterHint(err error) string {
	if server := unreachable(err); server != "" {
		return "no API server answers at " + server +
			": is it running? --kubeconfig, --context or --server name another"
	}
	if apierrors.IsUnauthorized(err) {
		return "the API server does not accept these credentials: --kubeconfig, --context or --token name others"
	}
	// Admission uses the same code, and its message contains the reason.
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "is forbidden: User ") {
		return "give the user that right, or name another user's kubeconfig with --kubeconfig or --context"
	}
	group, missing := notServed(err)
	switch {
	case !missing:
		return ""
	case strings.HasSuffix(group, "kyma-project.io"):
		return "this API server has no " + group +
			": name the right cluster with --kubeconfig or --context, or install the chart there"
	}
	return "`kubectl api-resources` lists the kinds that the API server has"
}

// unreachable returns the address of an API server that could not be connected to, and an empty string for other
// errors.
func unreachable(err error) string {
	var request *url.Error
	if !errors.As(err, &request) || !errors.As(err, new(*net.OpError)) {
		return ""
	}
	to, parseErr := url.Parse(request.URL)
	if parseErr != nil || strings.HasPrefix(to.Path, "/v2/") || !apiServerPath.MatchString(to.Path) {
		return ""
	}
	return to.Scheme + "://" + to.Host
}

// notServed returns the group of a kind that the API server does not serve, and whether the error has that cause.
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
