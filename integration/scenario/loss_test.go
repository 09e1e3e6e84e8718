package scenario

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// packedZot is the path of the compressed zot binary.
const packedZot = checkout + "/../shared/oracles/zot.gz"

// volume is a registry's stored data, from which a test can remove parts.
type volume struct {
	host string
	// data is the registry's folder, and repositories is the folder that contains one folder per repository.
	data, repositories string
	// blob returns the path of a blob in its repository's folder.
	blob func(digest.Digest) string
	// change runs a function that changes the data while the registry is stopped.
	change func(t *testing.T, change func())
	// live is true if data can be removed while the registry runs.
	live bool
	// intercept responds to requests instead of the registry. It is nil if the registry does not support that.
	intercept func(func(http.ResponseWriter, *http.Request) bool)
}

// replace removes files and folders from the registry's data. If other is not empty, it then copies the folder other to
// the first removed path.
func (v volume) replace(t *testing.T, other string, lost ...string) {
	t.Helper()
	away := t.TempDir()
	replace := func() {
		// The registry can write to the path at the same time, so use an atomic rename.
		for i, path := range lost {
			must(t, os.Rename(path, filepath.Join(away, fmt.Sprint(i))))
		}
		if other != "" {
			must(t, os.CopyFS(lost[0], os.DirFS(other)))
		}
	}
	if v.live && other == "" {
		replace()
		return
	}
	v.change(t, replace)
}

func distributionVolume(t *testing.T) volume {
	t.Helper()
	r, err := registry.Start(t.Context(), registry.Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	data := filepath.Join(r.Dir(), "data")
	return volume{
		host: r.Host(), data: data, repositories: filepath.Join(data, "docker/registry/v2/repositories"),
		blob: func(d digest.Digest) string { return filepath.Join("_layers", d.Algorithm().String(), d.Encoded()) },
		change: func(t *testing.T, change func()) {
			must(t, r.Stop())
			change()
			must(t, r.Resume())
		},
		live: true, intercept: r.Intercept,
	}
}

func zotVolume(t *testing.T) volume {
	t.Helper()
	z, err := registry.StartZot(t.Context(), t.TempDir(), packedZot, nil)
	if errors.Is(err, registry.ErrNoZot) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { _ = z.Stop() })
	return volume{
		host: z.Host(), data: z.Data(), repositories: z.Data(),
		blob: func(d digest.Digest) string { return filepath.Join("blobs", d.Algorithm().String(), d.Encoded()) },
		// zot also keeps state in memory and in a database, so restart it without them.
		change: func(t *testing.T, change func()) {
			must(t, z.Stop())
			change()
			must(t, z.Resume(t.Context()))
		},
	}
}

// The test removes data while the publisher and the agent run. The publisher restores the data.
func TestPublisherRestoresDataLostFromTheRegistry(t *testing.T) {
	suite.Long(t)
	losesItsData(t, distributionVolume(t))
}

func TestPublisherRestoresDataLostFromZot(t *testing.T) {
	suite.Long(t)
	losesItsData(t, zotVolume(t))
}

func losesItsData(t *testing.T, v volume) {
	ctx := t.Context()
	courier := sample.Version{
		Module: "courier", Version: "1.0.0",
		Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: courier, namespace: kyma-system}\n",
	}
	archive := t.TempDir() // the publisher copies this content to the fleet's registry
	must(t, sample.WriteArchive(ctx, archive, courier))
	f := newFleet(t, fleet.Options{RegistryHost: v.host, PublisherFlags: []string{
		"--components", archive, "--set", "registry-check-interval=1s", "--set", "keys-poll-interval=1s",
		"--set", "component-poll-interval=1s",
	}})
	must(t, f.Offer(ctx, sample.Scaler("1.9.0")))
	must(t, f.Control.Create(ctx, courier.Template()))
	must(t, release(ctx, f, courier))
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0", "courier": "1.0.0"})
	changeKeys(t, f, "rotate", "publisher")
	untilRoot(t, r, 2)
	untilQuiet(t, f)
	backup := filepath.Join(t.TempDir(), "backup")
	v.change(t, func() { must(t, os.CopyFS(backup, os.DirFS(v.data))) })
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	untilQuiet(t, f)

	repository := func(name string) string { return filepath.Join(v.repositories, "fleet", name) }
	own, copied := bundle.DesiredRepository(r.ID), "component-descriptors/"+courier.Component()
	// blobOf returns the paths of a bundle's document in all repositories, because zot hard-links equal blobs.
	blobOf := func(choose func(bundle.Verified) digest.Digest) func() []string {
		return func() []string {
			fetched, err := r.Desired(ctx)
			must(t, err)
			verified, err := bundle.Adopt(fetched, r.ID, rootOf(t, f))
			must(t, err)
			path := v.blob(choose(verified))
			return []string{
				filepath.Join(repository(own), path), filepath.Join(repository(bundle.DocumentsRepository), path),
			}
		}
	}
	only := func(path string) func() []string { return func() []string { return []string{path} } }
	for _, c := range []struct {
		name string
		// lost returns the paths that the test removes.
		lost func() []string
		// other is a folder that replaces the first lost path. It can be empty.
		other string
		// message is text that the publisher must log.
		message string
	}{
		{"roots of trust lost", only(repository(bundle.TrustRepository)), "", "root of trust versions [1 2]"},
		{"shared documents lost", only(repository(bundle.DocumentsRepository)), "", "documents sha256:"},
		{"module content lost", only(repository("component-descriptors")), "", "content sha256:"},
		{
			"module content blob lost",
			only(filepath.Join(repository(copied), v.blob(courier.ContentDigest()))), "", "content sha256:",
		},
		{"all runtime repositories lost", only(repository("runtimes")), "", v1beta2.ReasonBundleMissing},
		{
			"desired state blob lost",
			blobOf(func(b bundle.Verified) digest.Digest { return b.Config.Digest }), "",
			v1beta2.ReasonBundleIncomplete,
		},
		{
			"catalog blob lost",
			blobOf(func(b bundle.Verified) digest.Digest { return b.Catalog.Digest }), "",
			v1beta2.ReasonBundleIncomplete,
		},
		{"all repositories lost", only(repository(".")), "", v1beta2.ReasonBundleMissing},
		{"registry restored from an older backup", only(v.data), backup, v1beta2.ReasonBundleReplayed},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(f.Publisher().Log())
			v.replace(t, c.other, c.lost()...)
			until(t, 30*time.Second, "the publisher reports the lost data", func() (bool, string) {
				log := f.Publisher().Log()[before:]
				return strings.Contains(log, c.message), string(last([]byte(log), 1000))
			})
			until(t, 30*time.Second, "the registry contains all data again", func() (bool, string) {
				missing := firstMissing(t, f, r, "1.8.0")
				return missing == "", missing
			})
			must(t, r.UntilAccepted(ctx, metav1.ConditionTrue, "Accepted"))
			must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
			until(t, 30*time.Second, "the control plane reports a consistent registry", func() (bool, string) {
				record, err := r.Record(ctx)
				if err != nil {
					return false, err.Error()
				}
				message := conditionOf(t, r, v1beta2.ConditionRegistry).Reason
				return record.Status.State == v1beta2.StateReady && (message == "" ||
						message == v1beta2.ReasonConsistent),
					fmt.Sprint(record.Status.State, message)
			})
			if c.message == v1beta2.ReasonBundleMissing || c.message == v1beta2.ReasonBundleReplayed {
				recoverRegistry(t, f, r.ID)
			}
		})
	}
	if v.intercept != nil {
		t.Run("manifest is found by tag but not by digest", func(t *testing.T) {
			lost, err := r.Desired(ctx)
			must(t, err)
			v.intercept(func(w http.ResponseWriter, request *http.Request) bool {
				if !strings.HasSuffix(request.URL.Path, "/manifests/"+lost.Descriptor.Digest.String()) {
					return false
				}
				http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
				return true
			})
			defer v.intercept(nil)
			until(t, 30*time.Second, "the publisher pushes another bundle", func() (bool, string) {
				next, err := r.Desired(ctx)
				return err == nil && next.Descriptor.Digest != lost.Descriptor.Digest, fmt.Sprint(err)
			})
		})
	}
	promote(t, f, "1.9.0")
	must(t, r.UntilState(ctx, "scaler", "1.9.0", v1beta2.StateReady))
}

// firstMissing describes the first object that a new agent needs but that the registry lacks. It returns "" if all
// exist.
func firstMissing(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, scaler string) string {
	t.Helper()
	ctx, root := t.Context(), rootOf(t, f)
	for version := int64(1); version <= root.Version; version++ {
		if _, _, err := store.FetchRoot(ctx, f.Place, version); err != nil {
			return fmt.Sprintf("root of trust %d: %v", version, err)
		}
	}
	fetched, err := r.Desired(ctx)
	if err != nil {
		return err.Error()
	}
	verified, err := bundle.Adopt(fetched, r.ID, root)
	if err != nil {
		return err.Error()
	}
	own, err := f.Place.Repository(ctx, bundle.DesiredRepository(r.ID))
	must(t, err)
	if _, err := store.Fetch(ctx, own, verified.Digest.String()); err != nil {
		return err.Error()
	}
	opened, err := store.FetchBundle(ctx, own, verified)
	if err != nil {
		return err.Error()
	}
	shared, err := f.Place.Repository(ctx, bundle.DocumentsRepository)
	must(t, err)
	if there, err := store.Has(ctx, shared, verified.Config, verified.Catalog); err != nil || !there {
		return fmt.Sprint("shared documents: ", err)
	}
	if len(opened.State.Manifests) != 2 {
		return fmt.Sprintf("the bundle has %d modules", len(opened.State.Manifests))
	}
	for _, m := range opened.State.Manifests {
		if m.Module == "scaler" && m.Version != scaler {
			return "scaler is " + m.Version
		}
		for _, c := range m.Content {
			from, err := f.Registries.Repository(c.Repository)
			must(t, err)
			if _, err := store.FetchBlob(ctx, from, c.Descriptor(), bundle.MaxLayerBytes); err != nil {
				return fmt.Sprintf("content of %s: %v", m.Module, err)
			}
		}
	}
	return ""
}
