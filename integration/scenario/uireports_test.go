package scenario

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// As in the chart, the UI has the root of trust, and credentials that can only read bundles and reports.
func TestSignedInUsersReadReportsWithPermission(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Tokens: true})
	greeter := sample.Greeter("1.0.0") // greeter's component descriptor lists its image
	must(t, errors.Join(f.Offer(ctx, greeter), release(ctx, f, greeter)))
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0", "greeter": "1.0.0"})
	kyma, err := r.Record(ctx)
	must(t, err)
	change(t, f.Control, kyma, func(k *v1beta2.Kyma) {
		k.Annotations = map[string]string{v1beta2.AnnotationReportDetails: "events,logs,objects"}
	})

	config, err := exec.CommandContext(ctx, f.Binaries().Publisher, "registry", "credentials", "_reader", "--keys",
		f.Keys(), "--location", f.Location()).Output()
	must(t, err)
	root, err := os.ReadFile(filepath.Join(f.Keys(), "root.json"))
	must(t, err)
	trust := filepath.Join(t.TempDir(), "root.json")
	must(t, errors.Join(os.WriteFile(filepath.Join(f.Dir, "_reader.json"), config, 0o600),
		os.WriteFile(trust, root, 0o600)))
	address, log := startPage(t, f, append(f.RegistryFlags("_reader"), "--location", f.Location(), "--trust", trust)...)

	bind(t, f, "ann", "kcp-publisher-ui-viewer")
	ann := newBrowser(t, address)
	ann.untilShown("a viewer signs in", http.MethodPost, "/sign-in/token",
		url.Values{"token": {controlToken(t, f, "ann")}}, http.StatusOK, "one")
	page := "/runtimes/one"
	ann.untilShown("the viewer sees the signer and the missing permission", http.MethodGet, page, nil, http.StatusOK,
		"kubectl auth can-i get kymas.operator.kyma-project.io/"+kyma.Name+" --subresource report --namespace kcp-system",
		"Signed")
	_, text, err := ann.ask(http.MethodGet, page, nil)
	must(t, err)
	if strings.Contains(text, "From the signed report") {
		t.Errorf("the page shows objects to a user without the permission:\n%s", text)
	}
	// scaler's component descriptor does not list images, but one of its objects uses an image.
	ann.untilShown("the viewer sees images", http.MethodGet, "/images", nil, http.StatusOK,
		"greeter 1.0.0", "scaler 1.7.0")

	bind(t, f, "ann", "kcp-publisher-ui-operator")
	ann.untilShown("an operator sees objects and excerpts", http.MethodGet, page, nil, http.StatusOK,
		"From the signed report", "objects</summary>")
	data, err := os.ReadFile(log)
	must(t, err)
	if strings.Contains(string(data), "denied") {
		t.Errorf("the registry refused a request of the UI: %s", data)
	}
}
