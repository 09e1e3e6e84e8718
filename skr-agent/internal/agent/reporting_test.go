package agent

import (
	"context"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/store/storetest"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/report"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/pull"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/secrets"
)

// discardClient is a fake API client that accepts all writes and does not store objects.
type discardClient struct{ client.Client }

func (discardClient) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (discardClient) Create(context.Context, client.Object, ...client.CreateOption) error { return nil }

func (discardClient) Update(context.Context, client.Object, ...client.UpdateOption) error { return nil }

func (discardClient) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// The control plane refuses reports with a decreasing sequence number. If the clock was set back, the
// agent derives the sequence number from the newest bundle's time instead of the clock.
func TestReportsAreAcceptedAfterClockChanges(t *testing.T) {
	signer, key, place := trusttest.NewSigner(t), trusttest.NewSigner(t), store.NewMemory()
	root := trusttest.RootFor(t, signer)
	now := trusttest.Now
	documents, err := bundle.NewDocuments(bundle.DesiredState{}, bundle.Catalog{})
	require.NoError(t, err)
	manifest, err := bundle.Compose(documents, bundle.Predicate{
		Audience: bundle.Audience{
			Runtime: trusttest.Runtime,
		}, Epoch: 1, Sequence: 1, IssuedAt: now, ExpiresAt: now.Add(7 * 24 * time.Hour), RootVersion: 1,
	}, signer)
	require.NoError(t, err)
	require.NoError(t, storetest.ShareDocuments(t.Context(), place, documents))
	require.NoError(t,
		storetest.PushBundle(t.Context(), place, trusttest.Runtime, documents, manifest))

	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	clock := func() time.Time { return now }
	a := newAgent(Options{
		Runtime: trusttest.Runtime, Signer: key, Now: clock, Secrets: &secrets.Reconciler{Identity: identity},
		Puller: pull.New(
			pull.Options{
				ConfiguredLocation: place,
				Client:             discardClient{},
				Store:              contentstore.New(discardClient{}, discardClient{}, "kyma-system"),
				Trust:              bundle.Trust{Root: root, Runtime: trusttest.Runtime},
				Now:                clock,
			},
		),
	})
	_, err = a.Puller.Pull(t.Context())
	require.NoError(t, err)
	require.NotNil(t, a.Puller.Current(), "the bundle must be accepted, refused: %v", a.Puller.RefusedBundles())
	public, err := key.PublicKey()
	require.NoError(t, err)
	last := int64(0)
	for _, clock := range []struct {
		by      time.Duration
		refused bool
	}{
		{by: 0}, {by: time.Minute}, {by: -9 * 24 * time.Hour}, {by: -8 * 24 * time.Hour}, {by: 2 * time.Minute},
		{by: 2 * time.Hour}, {by: 72 * time.Hour, refused: true},
		{by: 30 * time.Hour, refused: true}, {by: 3 * time.Minute},
	} {
		// Change the report, so that the agent sends it.
		now, a.KubernetesVersion = trusttest.Now.Add(clock.by), clock.by.String()
		a.sendReport(t.Context(), logr.Discard(), report.Facts{})
		repository, err := place.Reading(t.Context(), bundle.ReportRepository(trusttest.Runtime))
		require.NoError(t, err)
		fetched, err := store.Fetch(t.Context(), repository, bundle.TagLatest)
		require.NoError(t, err)
		accepted, err := bundle.VerifyReport(
			fetched,
			bundle.Reporter{
				Runtime:      trusttest.Runtime,
				Key:          public,
				LastSequence: last,
				Now:          trusttest.Now.Add(3 * time.Minute),
			},
		)
		if clock.refused {
			require.Error(t, err, "report with a clock offset of %s must be refused", clock.by)
			continue
		}
		require.NoError(t, err, "report with a clock offset of %s must be accepted", clock.by)
		require.Greater(t, accepted.Sequence, last, "sequence must increase with a clock offset of %s", clock.by)
		require.WithinDuration(t, now, accepted.Time, time.Second,
			"the report must have the time of the runtime's clock")
		last = accepted.Sequence
	}
}

// The clock was hours ahead, and is correct after a restart. The registry has lost the last report, so the agent must
// continue from the sequence number that it stored in the cluster.
func TestReportsAreAcceptedAfterRegistryDataLoss(t *testing.T) {
	key, identity := trusttest.NewSigner(t), func() *age.X25519Identity {
		identity, err := age.GenerateX25519Identity()
		require.NoError(t, err)
		return identity
	}()
	public, err := key.PublicKey()
	require.NoError(t, err)
	root := trusttest.RootFor(t, trusttest.NewSigner(t))
	for name, restored := range map[string]bool{"registry is empty": false, "registry has an older report": true} {
		t.Run(name, func(t *testing.T) {
			api, now, place := fake.NewClientBuilder().Build(), trusttest.Now, store.NewMemory()
			started := func() *Agent {
				clock := func() time.Time { return now }
				puller := pull.New(pull.Options{
					ConfiguredLocation: place, Client: api, Namespace: "kyma-system",
					Store: contentstore.New(api, api, "kyma-system"),
					Trust: bundle.Trust{Root: root, Runtime: trusttest.Runtime}, Now: clock, Key: key,
				})
				require.NoError(t, puller.Restore(t.Context()))
				return newAgent(
					Options{
						Runtime: trusttest.Runtime,
						Signer:  key,
						Now:     clock,
						Secrets: &secrets.Reconciler{Identity: identity},
						Puller:  puller,
					},
				)
			}
			newest := func() bundle.Fetched {
				repository, err := place.Reading(t.Context(), bundle.ReportRepository(trusttest.Runtime))
				require.NoError(t, err)
				fetched, err := store.Fetch(t.Context(), repository, bundle.TagLatest)
				require.NoError(t, err)
				return fetched
			}
			verified := func(last int64) bundle.AcceptedReport {
				accepted, err := bundle.VerifyReport(
					newest(),
					bundle.Reporter{
						Runtime: trusttest.Runtime, Key: public, LastSequence: last, Now: trusttest.Now.Add(time.Hour),
					},
				)
				require.NoError(t, err)
				return accepted
			}
			started().sendReport(t.Context(), logr.Discard(), report.Facts{})
			older := newest()

			now = trusttest.Now.Add(2 * time.Hour)
			started().sendReport(t.Context(), logr.Discard(), report.Facts{})
			last := verified(0).Sequence
			require.Equal(t, now.UnixMilli(), last)

			now, place = trusttest.Now.Add(time.Hour), store.NewMemory()
			if restored {
				require.NoError(t, store.PushReport(t.Context(), place, trusttest.Runtime, bundle.Blob(older)))
			}
			started().sendReport(t.Context(), logr.Discard(), report.Facts{})
			require.Greater(t, verified(last).Sequence, last)
		})
	}
}
