package scenario

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// The registry stores its data in a bucket on a real S3 gateway and redirects blob requests to the gateway.
func TestFleetWorksWithRegistryOnABucket(t *testing.T) {
	suite.Long(t)
	ctx := t.Context()
	bucket, err := registry.StartBucket(ctx, t.TempDir())
	if errors.Is(err, registry.ErrNoBucket) {
		t.Skip(err)
	}
	must(t, err)
	defer func() { must(t, bucket.Close()) }()
	named := []string{"--blob-host", bucket.Gateway}
	f := newFleet(t, fleet.Options{
		RegistryHost: bucket.Host, BlobHosts: []string{bucket.Gateway}, PublisherFlags: named, AgentFlags: named,
	})
	berlin := runtimeWith(t, f, "berlin", map[string]string{"scaler": "1.7.0"})
	must(t, f.Control.Create(ctx, fleet.NewKyma("tokyo", "regular", "mailer")))
	untilQuiet(t, f)

	// A client must allow the bucket's host, because the registry redirects blob requests to it.
	whole := func(host string) error {
		registries, err := store.NewRegistries(store.Access{NoRetry: true})
		must(t, err)
		place, err := store.Open(host+"/fleet", registries)
		must(t, err)
		repository, err := place.Reading(ctx, bundle.DesiredRepository("berlin"))
		must(t, err)
		fetched, err := store.Fetch(ctx, repository, bundle.TagDesired)
		must(t, err)
		verified, err := bundle.Adopt(fetched, "berlin", rootOf(t, f))
		must(t, err)
		_, err = store.FetchBundle(ctx, repository, verified)
		return err
	}
	if err := whole(bucket.Host); err == nil || !strings.Contains(err.Error(), "--blob-host "+bucket.Gateway) ||
		strings.Contains(err.Error(), "X-Amz") {
		t.Errorf("redirect to a host that is not allowed: got error %v", err)
	}
	must(t, whole(bucket.Direct))

	// The S3 gateway stops during a promotion.
	must(t, bucket.Stop())
	before := len(f.Publisher().Log())
	promote(t, f, "1.8.0")
	until(t, time.Minute, "the publisher reports the outage", func() (bool, string) {
		log := f.Publisher().Log()[before:]
		return strings.Contains(log, `"level":"error"`), log
	})
	must(t, bucket.Resume(ctx))
	must(t, berlin.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	until(t, time.Minute, "the control plane receives the report", func() (bool, string) {
		kyma, err := berlin.Record(ctx)
		must(t, err)
		status := kyma.Status.Runtime
		return status != nil && status.Published != nil && status.Observed != nil &&
			status.Published.Digest == status.Observed.Digest, fmt.Sprintf("%+v", status)
	})

	f.Publisher().Stop()
	tokyo := fleet.NewKyma("tokyo", "regular", "mailer")
	must(t, f.Control.Get(ctx, client.ObjectKeyFromObject(tokyo), tokyo))
	tokyo.Finalizers = nil
	must(t, f.Control.Update(ctx, tokyo))
	must(t, f.Control.Delete(ctx, tokyo))
	output, code := fleet.Run(ctx, f.Binaries().Publisher, "registry", "prune", "--to", f.Location(), "--trust",
		filepath.Join(f.Keys(), "root.json"),
		"--kubeconfig", filepath.Join(f.Dir, "kcp.kubeconfig"), "--gone", "tokyo", "--blob-host", bucket.Gateway)
	if code != 0 || strings.Contains(output, "not all of its users are known") {
		t.Errorf("registry prune: exit code %d\n%s", code, output)
	}
	if has(t, f, "runtimes/tokyo", bundle.TagDesired) || !has(t, f, "runtimes/berlin", bundle.TagDesired) {
		t.Errorf("the registry must contain the bundle of berlin but not of tokyo:\n%s", output)
	}
	must(t, bucket.Stop())
	must(t, bucket.Resume(ctx))
	must(t, f.StartPublisher())
	must(t, berlin.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, managed("mailer"))
	}))
	must(t, berlin.UntilState(ctx, "mailer", "1.0.0", v1beta2.StateReady))
}
