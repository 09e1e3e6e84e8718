package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"oras.land/oras-go/v2/content"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// agent simulates a runtime without a cluster. It pulls and verifies bundles, treats their modules as installed, and
// sends signed reports.
type agent struct {
	id         string
	all        *agents
	token      trust.Token
	signer     trust.Signer
	thumbprint string
	publicKey  string
	wake       chan struct{}

	mu          sync.Mutex // guards the fields below
	last        bundle.Accepted
	observed    *bundle.Observed
	certificate string
	request     string
	known       bool // true if the control plane has enrolled the agent's key
	state       *sharedReports
	catalog     digest.Digest // digest of the current bundle's catalog
	arrived     time.Time     // time of the promoted module's last change
	sequence    int64
	reported    string
	nextReport  time.Time
	conduct     conduct
	trouble     error
}

type conduct struct {
	// Failing is the first version of the promoted module that this agent reports as failed. A silent agent does not
	// send requests. A noisy agent sends a report every second.
	Failing       string
	Silent, Noisy bool
}

// sharedReports contains the module reports for one desired state. All agents with this state share them to save
// memory.
type sharedReports struct {
	kyma    bundle.ReportedKyma
	modules []bundle.ReportedModule
	version string // version of the promoted module
}

func newAgent(all *agents, id string, secret trust.TokenSecret) (*agent, error) {
	a := &agent{id: id, all: all, wake: make(chan struct{}, 1)}
	key, err := trust.GenerateKey()
	if err != nil {
		return nil, err
	}
	if a.signer, err = trust.LoadSigner(key); err != nil {
		return nil, err
	}
	public, err := a.signer.PublicKey()
	if err != nil {
		return nil, err
	}
	if a.thumbprint, err = trust.Thumbprint(public); err != nil {
		return nil, err
	}
	if a.publicKey, err = trust.EncodePublicKey(public); err != nil {
		return nil, err
	}
	if a.request, err = trust.NewCertificateRequest(a.signer); err != nil {
		return nil, err
	}
	a.token, err = secret.Issue(id, time.Now().Add(24*time.Hour))
	return a, err
}

// keepsPolling reports whether this agent continues to poll and report while all other agents are suspended.
func (a *agent) keepsPolling() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conduct.Noisy
}

// round polls the registry once and sends a report if one is due.
func (a *agent) round(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conduct.Silent {
		return
	}
	a.trouble = errors.Join(a.pull(ctx), a.report(ctx))
}

// pull verifies the newest bundle and records its modules as installed.
func (a *agent) pull(ctx context.Context) error {
	repository, err := a.all.place.Reading(ctx, bundle.DesiredRepository(a.id))
	if err != nil {
		return err
	}
	newest, err := store.Head(ctx, repository, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) || err == nil && newest == a.last.Digest {
		return nil
	}
	if err != nil {
		return err
	}
	fetched, err := store.Fetch(ctx, repository, newest.String())
	if err != nil {
		return err
	}
	verified, err := bundle.Verify(fetched,
		bundle.Trust{Root: a.all.root, Runtime: a.id, ClusterUID: a.id, KeyThumbprint: a.thumbprint, Last: a.last},
		time.Now())
	if err != nil {
		return err
	}
	state, err := a.all.open(ctx, repository, verified, a.catalog)
	if err != nil {
		return err
	}
	if a.state == nil || a.state.version != state.version {
		a.arrived = time.Now()
	}
	p := verified.Statement.Predicate
	a.state, a.catalog, a.last = state, verified.Catalog.Digest, verified.Accepted
	a.observed = &bundle.Observed{Epoch: p.Epoch, Sequence: p.Sequence, Digest: verified.Digest}
	a.known = p.Audience.KeyThumbprint == a.thumbprint
	a.certificate = p.Certificate
	return nil
}

// report sends a report if the state changed or the report interval has passed.
func (a *agent) report(ctx context.Context) error {
	next, err := a.facts()
	if err != nil {
		return err
	}
	facts, err := json.Marshal(next)
	if err != nil {
		return err
	}
	now := time.Now()
	reported := string(digest.FromBytes(facts))
	if reported == a.reported && now.Before(a.nextReport) && !a.conduct.Noisy {
		return nil
	}
	a.sequence = bundle.NextReportSequence(a.sequence, now, time.Time{})
	next.Sequence, next.Time = a.sequence, now.UTC().Truncate(time.Second)
	manifest, err := bundle.ComposeReport(next, a.signer)
	if err != nil {
		return err
	}
	if err := store.PushReport(ctx, a.all.place, a.id, manifest); err != nil {
		return err
	}
	a.reported, a.nextReport = reported, now.Add(jittered(a.all.report))
	return nil
}

func (a *agent) facts() (bundle.Report, error) {
	r := bundle.Report{
		Runtime: a.id, Fleet: a.all.root.Fleet, AgentVersion: "v0.0.0-bench", KubernetesVersion: "v1.36.3",
		ClusterUID: a.id,
		Observed:   a.observed, Certificate: a.certificate,
	}
	if a.certificate == "" {
		r.CertificateRequest = a.request
	}
	if !a.known {
		public, err := a.signer.PublicKey()
		if err != nil {
			return r, err
		}
		proof, err := a.token.Prove(a.id, public)
		if err != nil {
			return r, err
		}
		r.Enrollment = &trust.Enrollment{PublicKey: a.publicKey, Proof: proof, TokenExpires: a.token.Expires.Unix()}
	}
	if a.state == nil {
		return r, nil
	}
	kyma := a.state.kyma
	r.Kyma, r.Modules = &kyma, a.state.modules
	if a.conduct.Failing != "" && !bundle.IsOlder(a.state.version, a.conduct.Failing) {
		r.Modules = append([]bundle.ReportedModule(nil), r.Modules...)
		for i := range r.Modules {
			if m := &r.Modules[i]; m.Name == promotedModule {
				m.State, m.Message = v1beta2.StateError,
					fmt.Sprintf("Deployment %s/%s-manager: cannot pull its image", v1beta2.RuntimeNamespace, m.Name)
			}
		}
		r.Kyma.State = v1beta2.StateError
	}
	return r, nil
}

// agents contains the simulated agents of all runtimes.
type agents struct {
	place        store.Store
	root         trust.Root
	poll, report time.Duration
	suspended    atomic.Bool
	slots        chan struct{} // limits the number of concurrently working agents
	each         []*agent
	// connect opens an agent's connection to the publisher's notifications. It is nil if agents only poll.
	connect func(ctx context.Context, a *agent) (io.ReadCloser, error)
	stop    context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	known map[digest.Digest]*sharedReports
}

func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
}

// open fetches and verifies the missing documents of a bundle. All agents share the decoded documents.
func (all *agents) open(
	ctx context.Context, from content.Fetcher, verified bundle.Verified, has digest.Digest,
) (*sharedReports, error) {
	config, err := store.FetchBlob(ctx, from, verified.Config, bundle.MaxDocumentBytes)
	if err != nil {
		return nil, err
	}
	var catalog []byte
	if verified.Catalog.Digest != has {
		if catalog, err = store.FetchBlob(ctx, from, verified.Catalog, bundle.MaxDocumentBytes); err != nil {
			return nil, err
		}
	}
	key := digest.FromString(string(verified.Config.Digest) + string(verified.Catalog.Digest))
	all.mu.Lock()
	defer all.mu.Unlock()
	if known := all.known[key]; known != nil {
		return known, nil
	}
	if catalog == nil {
		if catalog, err = store.FetchBlob(ctx, from, verified.Catalog, bundle.MaxDocumentBytes); err != nil {
			return nil, err
		}
	}
	opened, err := verified.Open(config, catalog)
	if err != nil {
		return nil, err
	}
	all.known[key] = readyReport(opened.State)
	return all.known[key], nil
}

// readyReport returns a runtime's report for a desired state, with all modules in state Ready.
func readyReport(state bundle.DesiredState) *sharedReports {
	have := &sharedReports{kyma: bundle.ReportedKyma{Spec: state.Kyma.Spec, Generation: 1, State: v1beta2.StateReady}}
	for _, m := range state.Manifests {
		module := bundle.ReportedModule{Name: m.Module, Channel: m.Channel, Version: m.Version,
			State: v1beta2.StateReady, Manifest: &v1beta2.TrackingObject{
				TypeMeta:    metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Manifest"},
				PartialMeta: v1beta2.PartialMeta{Name: m.Name, Namespace: v1beta2.RuntimeNamespace, Generation: 1},
			}}
		if r := m.Spec.Resource; r != nil {
			module.Resource = &v1beta2.TrackingObject{
				TypeMeta:    metav1.TypeMeta{APIVersion: r.GetAPIVersion(), Kind: r.GetKind()},
				PartialMeta: v1beta2.PartialMeta{Name: r.GetName(), Namespace: r.GetNamespace()},
			}
		}
		if m.Module == promotedModule {
			have.version = m.Version
		}
		have.modules = append(have.modules, module)
	}
	return have
}
