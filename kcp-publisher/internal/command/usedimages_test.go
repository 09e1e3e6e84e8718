package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/assemble"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
)

// The publisher's image does not contain skr-agent, so kcp-publisher must render charts itself to find their images.
func TestPublisherRendersChartsToFindTheirImages(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ template, image, refused string }{
		"a chart": {
			"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: " +
				"'example.org/mailer:{{ .Chart.Version }}'}]}\n", "example.org/mailer:1.0.0", "",
		},
		"a chart that fails": {`{{ fail "no values" }}`, "", "no values"},
	} {
		chart := t.TempDir()
		write(t, filepath.Join(chart, "Chart.yaml"), "apiVersion: v2\nname: mailer\nversion: 1.0.0\n")
		write(t, filepath.Join(chart, "templates", "all.yaml"), c.template)
		files, err := assemble.Read(chart)
		if err != nil {
			t.Fatal(err)
		}
		content := digest.FromBytes(files.Packed)
		source, err := json.Marshal(v1beta2.ImageSpec{Type: v1beta2.HelmChart, Ref: content.String()})
		if err != nil {
			t.Fatal(err)
		}
		images, err := export.Renderer{Program: self}.Images(t.Context(), airgap.UsedRequest{
			Manifest: bundle.Manifest{Name: "mailer", Module: "mailer", Spec: v1beta2.ManifestSpec{
				Install: v1beta2.InstallInfo{Source: runtime.RawExtension{Raw: source}},
			}},
			Contents: map[digest.Digest][]byte{content: files.Packed},
		})
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: got images %q, error %v, want an error with %s", name, images, err, c.refused)
			}
			continue
		}
		if err != nil || !slices.Equal(images, []string{c.image}) {
			t.Errorf("%s: got images %q, %v, want %s", name, images, err, c.image)
		}
	}
}
