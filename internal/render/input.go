package render

import (
	"fmt"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

// shortenMessage limits the length of a message. It keeps the beginning with the location, and the end with the error.
func shortenMessage(text string) string {
	const most = 1_000
	if len(text) <= 2*most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ... " + strings.ToValidUTF8(text[len(text)-most:], "")
}

// Input contains everything that rendering depends on. Equal inputs result in equal objects.
type Input struct {
	// Content is the blob with the module's content. The caller must have verified its digest.
	Content []byte
	// Packed is the content type of the blob, such as helm-chart. Empty means oci-ref.
	Packed v1beta2.ImageSpecType
	// Path is the kustomization's folder in content of type kustomize. Empty means the top level. Ignored for other
	// content.
	Path string
	// Values is the module's config layer, or nil. Ignored except for charts.
	Values []byte
	// Substitute contains the runtime's values for the placeholders in Values.
	Substitute bundle.ModuleValues
	// Release is the Helm release name, which is the module name. Errors contain this name.
	Release string
	// Namespace is the release's namespace.
	Namespace string
	// CheckKinds makes Render return an error for content with a kind that CheckInstallable refuses. Agents do not set
	// CheckKinds, so that they can apply the other objects.
	CheckKinds bool
	// TestHooks selects a chart's objects with a test hook. Agents do not install these objects, and Render otherwise
	// omits them. Ignored except for charts.
	TestHooks bool
	// Kubernetes describes the cluster. Only charts use it.
	Kubernetes Capabilities
}

// Capabilities describes the cluster, for charts that use .Capabilities.
type Capabilities struct {
	// Version is the API server's version, such as v1.36.3.
	Version string
	// APIVersions lists API versions and kinds, such as "apps/v1" and "apps/v1/Deployment".
	APIVersions []string
}

// wrapError adds "chart MODULE" or "kustomization MODULE" to an error. Errors about YAML content already contain the
// name of the file.
func (in Input) wrapError(err error) error {
	switch in.Packed {
	case v1beta2.HelmChart:
		return fmt.Errorf("chart %s: %w", in.Release, err)
	case v1beta2.Kustomize:
		return fmt.Errorf("kustomization %s: %w", in.Release, err)
	}
	return err
}
