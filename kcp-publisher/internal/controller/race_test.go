package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory" // registers the storage driver
	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

func emptyRegistry(t *testing.T) store.Store {
	t.Helper()
	return observedRegistry(t, nil)
}

func observedRegistry(t *testing.T, observe func(http.RoundTripper) http.RoundTripper) store.Store {
	t.Helper()
	logrus.SetOutput(io.Discard)
	config := &configuration.Configuration{Storage: configuration.Storage{
		"inmemory": configuration.Parameters{}, "maintenance": configuration.Parameters{
			"uploadpurging": map[any]any{"enabled": false},
		},
	}}
	config.Log.Level, config.Log.AccessLog.Disabled, config.HTTP.Secret = "panic", true, "loopback"
	server := httptest.NewServer(handlers.NewApp(context.WithoutCancel(t.Context()), config))
	t.Cleanup(server.Close)
	registries, err := store.NewRegistries(store.Access{NoRetry: true, Observe: observe})
	if err != nil {
		t.Fatal(err)
	}
	place, err := store.Open(strings.TrimPrefix(server.URL, "http://")+"/fleet", registries)
	if err != nil {
		t.Fatal(err)
	}
	return place
}

func quiet(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }

// race is a publisher with several runtimes. The test rotates the publisher's keys while agents poll.
type race struct {
	*testing.T
	place     store.Store
	folder    keys.Folder
	publisher *publish.Publisher
	records   sync.Map
	pinned    trust.Root
}

func newRace(t *testing.T) *race {
	t.Helper()
	r := &race{T: t, place: emptyRegistry(t), folder: keys.Folder{Dir: filepath.Join(t.TempDir(), "keys")}}
	if _, err := r.folder.Init(keys.InitOptions{Fleet: "fleet", Epoch: 1, RootKeys: 1, Threshold: 1,
		Expires: time.Now().AddDate(1, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	loaded, err := r.folder.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.pinned = loaded.Root
	r.publisher, err = publish.New(publish.Options{
		Place: r.place, Keys: loaded, Validity: time.Hour, CertificateValidity: time.Hour, Now: time.Now,
		Components: component.NewReader(component.Options{Revalidate: time.Hour, RetryAfter: time.Hour}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *race) publish(ctx context.Context, runtime, channel string) error {
	snapshot, err := catalog.New(nil, nil)
	if err != nil {
		return err
	}
	spec := v1beta2.KymaSpec{Channel: channel}
	record, _ := r.records.LoadOrStore(runtime, &publish.Record{})
	_, err = r.publisher.Publish(ctx, record.(*publish.Record), publish.Input{
		Runtime: plan.Runtime{ID: runtime, Audience: bundle.Audience{Runtime: runtime}},
		Request: resolve.Request{Seed: spec, Requested: spec}, Catalog: snapshot,
	})
	return err
}

func (r *race) rotate(ctx context.Context, dropOld bool) error {
	change, err := r.folder.Change(time.Now().AddDate(1, 0, 0))
	if err != nil {
		return err
	}
	if err := change.Rotate(ctx, trust.RolePublisher, "", dropOld); err != nil {
		return err
	}
	_, err = change.Finish(r.folder.RootKeyFiles())
	return err
}

// pollingAgent is an agent that polls the registry for new bundles.
type pollingAgent struct {
	runtime string
	root    trust.Root
	last    bundle.Accepted
	by      string // key that signed the applied bundle
}

// poll polls once. If the agent refuses a bundle for a reason that a newer root of trust can resolve, poll reads the
// root of trust again and retries.
func (l *pollingAgent) poll(ctx context.Context, place store.Store) error {
	if err := l.follow(ctx, place); err != nil {
		return err
	}
	repository, err := place.Reading(ctx, bundle.DesiredRepository(l.runtime))
	if err != nil {
		return err
	}
	fetched, err := store.Fetch(ctx, repository, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	verified, err := bundle.Verify(fetched, bundle.Trust{Root: l.root, Runtime: l.runtime, Last: l.last}, time.Now())
	if refusal := refusal.Of(err); refusal != nil && refusal.Reason.MayPassNewerRoot() {
		if err := l.follow(ctx, place); err != nil {
			return err
		}
		verified, err = bundle.Verify(fetched, bundle.Trust{Root: l.root, Runtime: l.runtime, Last: l.last}, time.Now())
	}
	if err != nil {
		return err
	}
	if _, err := store.FetchBundle(ctx, repository, verified); err != nil {
		return err
	}
	l.last, l.by = verified.Accepted, verified.KeyThumbprint
	return nil
}

func (l *pollingAgent) follow(ctx context.Context, place store.Store) error {
	newest, refusal, _, err := store.FollowRoot(ctx, place, l.root)
	if refusal != nil {
		return refusal
	}
	if err == nil {
		l.root = newest
	}
	return err
}

func withRaceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// The root of trust lists the old key until all bundles are signed with the new one, so agents must never refuse a
// bundle. In the end, all agents must have applied a bundle for the newest root of trust, signed with the newest key.
func TestKeysRotateWhileBundlesArePublished(t *testing.T) {
	for name, dropOld := range map[string]bool{"old key is kept for one rotation": false,
		"old key is dropped immediately": true} {
		t.Run(name, func(t *testing.T) {
			const workers = 3
			rounds := 3
			if withRaceDetector() {
				rounds = 8
			}
			r := newRace(t)
			marked := 0
			follower := &Keys{
				KeyOptions: KeyOptions{Folder: r.folder}, Publisher: r.publisher,
				onChange: func(context.Context) error { marked++; return nil },
			}
			agents := make([]*pollingAgent, workers)
			for i := range agents {
				agents[i] = &pollingAgent{runtime: fmt.Sprintf("r-%d", i), root: r.pinned}
			}
			over, end := context.WithCancel(t.Context())
			looking, looksUntil := errgroup.WithContext(t.Context())
			for _, agent := range agents {
				looking.Go(func() error {
					for over.Err() == nil {
						err := agent.poll(looksUntil, r.place)
						if refused := refusal.Of(err); dropOld && refused != nil &&
							refused.Reason == refusal.UnknownKey {
							continue
						}
						if err != nil {
							return fmt.Errorf("%s, at root version %d: %w", agent.runtime, agent.root.Version, err)
						}
					}
					return nil
				})
			}
			for range rounds {
				working, ctx := errgroup.WithContext(looksUntil)
				for _, agent := range agents {
					working.Go(func() error {
						return errors.Join(r.publish(ctx, agent.runtime, "fast"),
							r.publish(ctx, agent.runtime, "regular"), r.publish(ctx, agent.runtime, "fast"))
					})
				}
				working.Go(func() error { return errors.Join(r.rotate(ctx, dropOld), follower.reloadKeys(quiet(ctx))) })
				if err := working.Wait(); err != nil {
					t.Fatal(errors.Join(context.Cause(looksUntil), err)) // the cause is an agent's refusal
				}
				// Publish to every runtime that needs a new bundle, as the controller does.
				for _, agent := range agents {
					if err := r.publish(looksUntil, agent.runtime, "regular"); err != nil {
						t.Fatal(errors.Join(context.Cause(looksUntil), err))
					}
				}
			}
			end()
			if err := looking.Wait(); err != nil {
				t.Fatal(err)
			}
			newest, err := r.folder.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if marked != rounds || newest.Root.Version != int64(rounds)+1 {
				t.Errorf("after %d rotations: got %d requests to publish and root version %d", rounds,
					marked, newest.Root.Version)
			}
			for _, agent := range agents {
				if err := agent.poll(t.Context(), r.place); err != nil || agent.root.Version != newest.Root.Version ||
					!signedBy(t, newest.Signer, agent.by) {
					t.Errorf("agent %s: got root version %d and key %s, want the newest; error %v", agent.runtime,
						agent.root.Version, agent.by, err)
				}
			}
		})
	}
}

func signedBy(t *testing.T, signer trust.Signer, thumbprint string) bool {
	t.Helper()
	public, err := signer.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	own, err := trust.Thumbprint(public)
	return err == nil && own == thumbprint
}
