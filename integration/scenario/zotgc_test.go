package scenario

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// The test publishes bundles, prunes the registry and installs modules while zot collects garbage.
func TestZotGarbageCollectionKeepsFleetContent(t *testing.T) {
	suite.Long(t)
	ctx := t.Context()
	const age = 3 * time.Second
	z, err := registry.StartCollectingZot(ctx, t.TempDir(), packedZot, age)
	if errors.Is(err, registry.ErrNoZot) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { _ = z.Stop() })
	courier := sample.Version{
		Module: "courier", Version: "1.0.0",
		Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: courier, namespace: kyma-system}\n",
	}
	archive := t.TempDir() // the publisher copies this content to the fleet's registry
	must(t, sample.WriteArchive(ctx, archive, courier))
	f := newFleet(t, fleet.Options{RegistryHost: z.Host(), PublisherFlags: []string{
		"--components", archive, "--set", "registry-check-interval=1s", "--set", "component-poll-interval=1s",
		"--set", "keys-poll-interval=1s",
	}})
	must(t, f.Offer(ctx, sample.Scaler("1.9.0")))
	must(t, f.Control.Create(ctx, courier.Template()))
	must(t, release(ctx, f, courier))
	modules := map[string]string{"scaler": "1.7.0", "courier": "1.0.0"}
	one := runtimeWith(t, f, "one", modules)
	changeKeys(t, f, "rotate", "publisher")
	untilRoot(t, one, 2)
	superseded, err := one.Desired(ctx)
	must(t, err)
	gone := fleet.NewKyma("gone", "regular", "mailer")
	must(t, f.Control.Create(ctx, gone))
	until(t, 60*time.Second, "the other runtime has a bundle", func() (bool, string) {
		return has(t, f, "runtimes/gone", bundle.TagDesired), "none yet"
	})
	promote(t, f, "1.8.0")
	must(t, one.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	until(t, 2*time.Minute, "zot collects a replaced bundle", func() (bool, string) {
		return !has(t, f, bundle.DesiredRepository(one.ID), superseded.Descriptor.Digest.String()), "still exists"
	})

	// `registry prune` must be able to delete a removed runtime's bundle from zot.
	f.Publisher().Stop()
	must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(gone), gone))
	gone.Finalizers = nil
	must(t, f.Control.Update(ctx, gone))
	must(t, f.Control.Delete(ctx, gone))
	pruned := func(args ...string) {
		t.Helper()
		output, code := fleet.Run(ctx, f.Binaries().Publisher, append([]string{
			"registry", "prune", "--to", f.Location(), "--trust", filepath.Join(f.Keys(), "root.json"), "--kubeconfig",
			filepath.Join(f.Dir, "kcp.kubeconfig"),
		}, args...)...)
		if code != 0 {
			t.Fatalf("registry prune: exit code %d\n%s", code, output)
		}
	}
	pruned()
	backdate(t, f)
	pruned("--gone", "gone")
	if has(t, f, "runtimes/gone", bundle.TagDesired) {
		t.Error("the bundle of a removed runtime still exists")
	}

	// Even after a period without writes, zot must have all content that new runtimes need.
	blobs := func() int {
		paths, err := filepath.Glob(filepath.Join(z.Data(), "fleet", "runtimes", "gone", "blobs", "sha256", "*"))
		must(t, err)
		return len(paths)
	}
	until(t, 2*time.Minute, "zot collects the blobs of the removed runtime", func() (bool, string) {
		return blobs() == 0, "some blobs still exist"
	})
	must(t, f.StartPublisher())
	modules["scaler"] = "1.8.0"
	two := runtimeWith(t, f, "two", modules)
	for _, r := range []*fleet.Runtime{one, two} {
		until(t, 60*time.Second, "the registry has all content of the bundle", func() (bool, string) {
			missing := firstMissing(t, f, r, "1.8.0")
			return missing == "", missing
		})
	}
	promote(t, f, "1.9.0")
	must(t, one.UntilState(ctx, "scaler", "1.9.0", v1beta2.StateReady))
	must(t, two.UntilState(ctx, "scaler", "1.9.0", v1beta2.StateReady))
}
