package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

func (f *fleet) installed(name string, listed ...string) bundle.Manifest {
	f.t.Helper()
	m := f.module(name, 100, listed...)
	source, err := json.Marshal(v1beta2.ImageSpec{Type: v1beta2.OCIDir, Ref: m.Content[0].Digest.String()})
	f.must(err)
	m.Spec.Install.Source = runtime.RawExtension{Raw: source}
	return m
}

func TestUnlistedImagesInRenderedObjectsAreExported(t *testing.T) {
	f := newFleet(t)
	listed, _ := f.image("lab/keda:1", "linux/amd64")
	used, _ := f.image("lab/helper:1", "linux/amd64")
	f.publish("berlin", f.installed("keda", f.host+"/lab/keda:1"), f.installed("mail"))
	f.publish("munich", f.installed("keda", f.host+"/lab/keda:1"))
	report, err := bundle.ComposeReport(bundle.Report{Runtime: "berlin", Sequence: 1, Time: noon,
		KubernetesVersion: "v1.33.1"}, f.keys.Signer)
	f.must(err)
	f.must(store.PushReport(t.Context(), f.place, "berlin", report))
	var asked []string
	options := f.options("berlin", "munich")
	options.Images, options.Rendering = true, func(_ context.Context, q airgap.UsedRequest) ([]string, error) {
		if len(q.Contents) != 1 || len(q.Contents[q.Manifest.Content[0].Digest]) != 100 {
			t.Errorf("module %s: got %d contents to render", q.Manifest.Name, len(q.Contents))
		}
		asked = append(asked, q.Manifest.Name+" "+q.KubernetesVersion)
		return []string{f.host + "/lab/keda:1", f.host + "/lab/helper:1", "NOT an image"}, nil
	}
	parcel := f.gather(options)
	if !parcel.holds(listed.Descriptor.Digest) || !parcel.holds(used.Descriptor.Digest) || len(parcel.Unlisted) != 0 {
		t.Errorf("got contents %+v, unlisted %v", parcel.Contents, parcel.Unlisted)
	}
	if got := strings.Join(asked, ", "); got != "keda v1.33.1, mail v1.33.1, keda " {
		t.Errorf("got rendering requests %s", got)
	}
	report, err = bundle.ComposeReport(bundle.Report{Runtime: "munich", Sequence: 1, Time: noon,
		KubernetesVersion: "x"}, f.keys.Signer)
	f.must(err)
	f.must(store.PushReport(t.Context(), f.place, "munich", report))
	asked = nil
	f.gather(options)
	if got := strings.Join(asked, ", "); got != "keda v1.33.1, mail v1.33.1, keda " {
		t.Errorf("a report without a Kubernetes version: got rendering requests %s", got)
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{ocispec.DescriptorEmptyJSON},
		Annotations: map[string]string{"padding": strings.Repeat("x", bundle.MaxManifestBytes)},
	})
	f.must(err)
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+f.host+"/v2/fleet/"+
		bundle.ReportRepository("munich")+"/manifests/"+bundle.TagLatest, bytes.NewReader(manifest))
	f.must(err)
	put.Header.Set("Content-Type", ocispec.MediaTypeImageManifest)
	response, err := http.DefaultClient.Do(put) // the project's own client would refuse to push such a manifest
	f.must(err)
	f.must(response.Body.Close())
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("push a large manifest: %s", response.Status)
	}
	asked = nil
	f.gather(options)
	if got := strings.Join(asked, ", "); got != "keda v1.33.1, mail v1.33.1, keda " {
		t.Errorf("a report that is too large: got rendering requests %s", got)
	}
	asked, options.KubernetesVersion = nil, "v1.36.3"
	f.publish("munich", f.installed("mail"))
	f.gather(options)
	// module mail is rendered twice, because its two versions have different content
	if got := strings.Join(asked, ", "); got != "keda v1.36.3, mail v1.36.3, mail v1.36.3" {
		t.Errorf("modules with different contents: got rendering requests %s", got)
	}

	options.Rendering = func(context.Context, airgap.UsedRequest) ([]string, error) {
		return []string{f.host + "/lab/gone:1"}, nil
	}
	if _, err := Gather(t.Context(), options); err == nil ||
		!strings.Contains(err.Error(),
			"module keda: its objects use an image that it does not list: image "+f.host+"/lab/gone:1") {
		t.Errorf("a missing image: got error %v", err)
	}
	options.Rendering = func(context.Context, airgap.UsedRequest) ([]string, error) {
		return nil, errors.New("no objects")
	}
	if _, err := Gather(t.Context(), options); err == nil ||
		!strings.Contains(err.Error(), "module keda: find the images of its objects: no objects; --renderer=none") {
		t.Errorf("content that cannot be rendered: got error %v", err)
	}
	options.Rendering = func(context.Context, airgap.UsedRequest) ([]string, error) {
		return make([]string, maxUsedImages+1), nil
	}
	if _, err := Gather(t.Context(), options); err == nil || !strings.Contains(err.Error(), "must be at most 1000") {
		t.Errorf("too many images: got error %v", err)
	}
}

func TestUnusableRendererIsRefusedWithAdvice(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"an agent from an earlier release": {
			`echo 'skr-agent: there is no command used-images' >&2; exit 2`,
			"remove --renderer, or set it to an skr-agent of this version",
		},
		"a program that fails":          {`echo broken >&2; exit 1`, `exit status 1: "broken"`},
		"a program without output":      {`true`, "read the output of"},
		"a program with endless output": {`head -c 6000000 /dev/zero; exec sleep 60`, "wrote more than"},
		"a chart with a long error": {
			`printf '{"refused":"no: '; head -c 1000000 /dev/zero | tr '\0' x; echo '"}'`, "no: xxx",
		},
		"a module that is refused": {`echo '{"refused":"chart keda: no objects"}'`, "chart keda: no objects"},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "skr-agent")
			if err := os.WriteFile(program, []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+c.script+"\n"),
				0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := (Renderer{program}).Images(t.Context(), airgap.UsedRequest{}); err == nil ||
				!strings.Contains(err.Error(), c.want) || len(err.Error()) > bundle.MaxMessageBytes {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// An offered module is not installed anywhere yet, so an invalid one must not block the export.
func TestUnrenderableOfferIsListedAndExportContinues(t *testing.T) {
	f := newFleet(t)
	listed, _ := f.image("lab/offer:1", "linux/amd64")
	used, _ := f.image("lab/helper:1", "linux/amd64")
	offer := f.installed("offer", f.host+"/lab/offer:1")
	offer.Channel = "regular"
	f.publishState("berlin", bundle.DesiredState{
		CRDs: []string{}, Manifests: []bundle.Manifest{f.installed("keda")}, Offers: []bundle.Manifest{offer},
		Settings: bundle.Settings{Autonomy: bundle.AutonomyCatalog},
	})
	options := f.options("berlin")
	options.Images, options.Offers = true, true
	options.Rendering = func(_ context.Context, q airgap.UsedRequest) ([]string, error) {
		if q.Manifest.Name == "offer" {
			return nil, errors.New("values.x is required")
		}
		return []string{f.host + "/lab/helper:1"}, nil
	}
	parcel := f.gather(options)
	if !parcel.holds(used.Descriptor.Digest) || !parcel.holds(listed.Descriptor.Digest) {
		t.Errorf("got contents %+v", parcel.Contents)
	}
	if len(parcel.Modules) != 2 || !parcel.Modules[0].Rendered || parcel.Modules[1].Rendered ||
		parcel.Modules[1].Listed != 1 || !strings.Contains(parcel.Modules[1].Problem, "values.x is required") {
		t.Errorf("got modules %+v, want the problem of the offer", parcel.Modules)
	}
	options.Rendering = nil
	if parcel = f.gather(options); len(parcel.Modules) != 2 || parcel.Modules[0].Rendered ||
		parcel.Modules[1].Rendered || len(parcel.Unlisted) != 1 {
		t.Errorf("without a renderer: got modules %+v, unlisted %v", parcel.Modules, parcel.Unlisted)
	}
	options.Rendering = func(context.Context, airgap.UsedRequest) ([]string, error) {
		return nil, errors.New("no objects")
	}
	if _, err := Gather(t.Context(), options); err == nil ||
		!strings.Contains(err.Error(), "module keda: find the images of its objects: no objects") {
		t.Errorf("an installed module that cannot be rendered: got error %v", err)
	}
}

// Chart authors choose image names. An image name must not make the publisher connect to its own machine.
func TestImageReferencesCannotReachLoopbackAddresses(t *testing.T) {
	f := newFleet(t)
	f.image("lab/helper:1", "linux/amd64")
	_, port, _ := strings.Cut(f.host, ":")
	inside := "localhost:" + port + "/lab/helper:1" // the fleet's own registry has another name
	f.publish("berlin", f.installed("keda"))
	options := f.options("berlin")
	options.Images, options.Rendering = true, func(context.Context, airgap.UsedRequest) ([]string, error) {
		return []string{inside}, nil
	}
	if _, err := Gather(t.Context(), options); err == nil || !strings.Contains(err.Error(), "loopback address") {
		t.Errorf("an image that a chart names: got error %v", err)
	}
	f.publish("berlin", f.installed("keda", inside))
	options.Rendering = nil
	if _, err := Gather(t.Context(), options); err == nil || !strings.Contains(err.Error(), "loopback address") {
		t.Errorf("an image that a component lists: got error %v", err)
	}
}
