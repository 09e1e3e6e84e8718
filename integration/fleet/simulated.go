package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

const (
	simulatedPoll   = 300 * time.Millisecond
	simulatedReport = 2 * time.Second
)

// Simulate adds a simulated runtime. It creates the runtime's Kyma if it does not exist.
func (f *Fleet) Simulate(ctx context.Context, kyma *v1beta2.Kyma) (*Simulated, error) {
	s := &Simulated{
		ID: kyma.Labels[v1beta2.LabelRuntimeID], fleet: f, ended: make(chan struct{}),
		breaks: map[string]bool{}, outcomes: map[string]v1beta2.CheckOutcome{},
		has: map[string]bundle.Manifest{}, waits: map[string]bool{},
	}
	if err := s.enroll(ctx); err != nil {
		return nil, err
	}
	if err := f.CreateKyma(ctx, kyma); client.IgnoreAlreadyExists(err) != nil {
		return nil, fmt.Errorf("create Kyma %s: %w", kyma.Name, err)
	}
	ctx, s.stop = context.WithCancel(ctx)
	f.simulated = append(f.simulated, s)
	go s.live(ctx)
	return s, nil
}

func (s *Simulated) enroll(ctx context.Context) error {
	output, err := exec.CommandContext(ctx, s.fleet.binaries.Publisher, "enroll", s.ID, "--keys", s.fleet.Keys(),
		"--location", s.fleet.Location()).Output()
	if err != nil {
		return fmt.Errorf("enroll %s: %w", s.ID, err)
	}
	var secret corev1.Secret
	if err := yaml.Unmarshal(output, &secret); err != nil {
		return err
	}
	if s.root, err = trust.ParseRoot([]byte(secret.StringData["root.json"])); err != nil {
		return err
	}
	if s.token, err = trust.ParseToken(secret.StringData["token"]); err != nil {
		return err
	}
	key, err := trust.GenerateKey()
	if err != nil {
		return err
	}
	s.signer, err = trust.LoadSigner(key)
	return err
}

// Enrolled reports whether the runtime has applied a bundle that contains its public key.
func (s *Simulated) Enrolled() (enrolled bool) {
	s.set(func() { enrolled = s.current != nil && s.current.Statement.Predicate.Audience.KeyThumbprint != "" })
	return enrolled
}

// GoAway disconnects the runtime from the registry.
func (s *Simulated) GoAway() { s.set(func() { s.away = true }) }

// ComeBack connects the runtime again.
func (s *Simulated) ComeBack() { s.set(func() { s.away = false }) }

// BreakWith makes the runtime report state Error for every module with this version.
func (s *Simulated) BreakWith(version string) { s.set(func() { s.breaks[version] = true }) }

// SetCheckOutcome makes the runtime report this outcome for every check. By default, it reports Passed.
func (s *Simulated) SetCheckOutcome(outcome v1beta2.CheckOutcome) {
	s.set(func() { s.outcomes[outcome.Name] = outcome })
}

// SetFeatures makes the runtime report that its agent supports only these bundle features.
func (s *Simulated) SetFeatures(features ...bundle.Feature) { s.set(func() { s.features = features }) }

// Edit changes the Kyma in the runtime, as the runtime's admin does. It fails until the runtime has applied its first
// bundle.
func (s *Simulated) Edit(edit func(*v1beta2.KymaSpec)) error {
	err := fmt.Errorf("%s has no Kyma yet", s.ID)
	s.set(func() {
		if s.current == nil {
			return
		}
		if s.own == nil {
			s.own = s.current.State.Kyma.Spec.DeepCopy()
		}
		edit(s.own)
		s.edits, err = s.edits+1, nil
	})
	return err
}

// All returns the installed modules with their versions.
func (s *Simulated) All() map[string]string {
	all := map[string]string{}
	s.set(func() {
		for name, m := range s.has {
			all[name] = m.Version
		}
	})
	return all
}

func (s *Simulated) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Has returns the installed version of a module.
func (s *Simulated) Has(module string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has[module].Version
}

// History returns all modules and versions that the runtime has had, in order, such as "scaler 1.7.0".
func (s *Simulated) History() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history)
}

// Bundle returns the sequence number and digest of the applied bundle, and the number of bundles that the runtime has
// applied so far.
func (s *Simulated) Bundle() (sequence int64, d digest.Digest, followed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0, "", 0
	}
	return s.current.Statement.Predicate.Sequence, s.current.Digest, s.bundles
}

// Settings returns the settings of the applied bundle.
func (s *Simulated) Settings() (settings bundle.Settings) {
	s.set(func() {
		if s.current != nil {
			settings = s.current.State.Settings
		}
	})
	return settings
}

// LastError returns the error of the runtime's last poll, or nil.
func (s *Simulated) LastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

// Record returns the runtime's Kyma in the control plane.
func (s *Simulated) Record(ctx context.Context) (*v1beta2.Kyma, error) {
	kyma := &v1beta2.Kyma{}
	err := s.fleet.Control.Get(ctx, client.ObjectKey{Namespace: sample.Namespace, Name: s.ID}, kyma)
	return kyma, err
}

func (s *Simulated) live(ctx context.Context) {
	defer close(s.ended)
	tick := time.NewTicker(simulatedPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.set(func() {
				if !s.away {
					s.trouble = errors.Join(s.pull(ctx), s.report(ctx))
				}
			})
		}
	}
}

// pull verifies and applies the newest bundle.
func (s *Simulated) pull(ctx context.Context) error {
	repository, err := s.fleet.Place.Reading(ctx, bundle.DesiredRepository(s.ID))
	if err != nil {
		return err
	}
	newest, err := store.Head(ctx, repository, bundle.TagDesired)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.current == nil || s.current.Digest != newest {
		if s.root, _, _, err = store.FollowRoot(ctx, s.fleet.Place, s.root); err != nil {
			return err
		}
		trust := bundle.Trust{Root: s.root, Runtime: s.ID, ClusterUID: s.ID}
		if s.current != nil {
			trust.Last = s.current.Accepted
		}
		fetched, err := store.Fetch(ctx, repository, newest.String())
		if err != nil {
			return err
		}
		verified, err := bundle.Verify(fetched, trust, time.Now())
		if err != nil {
			return err
		}
		next, err := store.FetchBundle(ctx, repository, verified)
		if err != nil {
			return err
		}
		s.current, s.bundles = &next, s.bundles+1
	}
	s.install()
	return nil
}

// install installs the modules in the bundle, except upgrades that wait for a maintenance window.
func (s *Simulated) install() {
	state := s.current.State
	open := true
	if state.Maintenance != nil {
		window, ahead := state.Maintenance.Next(time.Now())
		open = ahead && window.Contains(time.Now())
	}
	clear(s.waits)
	for _, m := range state.Manifests {
		have, there := s.has[m.Module]
		switch {
		case there && have.Version != m.Version && m.RequiresDowntime && !open &&
			!bundle.IsOlder(m.Version, have.Version):
			s.waits[m.Module] = true
		case have.Version != m.Version:
			s.history = append(s.history, m.Module+" "+m.Version)
			fallthrough
		default:
			s.has[m.Module] = m
		}
	}
	for _, gone := range s.current.Statement.Predicate.Removals {
		delete(s.has, gone)
	}
	if s.current.Statement.Predicate.Deleting {
		clear(s.has)
	}
}

// report sends a report if the runtime's state changed or the report interval has passed.
func (s *Simulated) report(ctx context.Context) error {
	next, err := s.facts()
	if err != nil {
		return err
	}
	data, err := json.Marshal(next)
	if err != nil || string(data) == s.sent && time.Since(s.sentAt) < simulatedReport {
		return err
	}
	s.sequence = bundle.NextSequence(s.sequence, time.Now())
	next.Sequence, next.Time = s.sequence, time.Now().UTC().Truncate(time.Second)
	manifest, err := bundle.ComposeReport(next, s.signer)
	if err != nil {
		return err
	}
	if err := store.PushReport(ctx, s.fleet.Place, s.ID, manifest); err != nil {
		return err
	}
	s.sent, s.sentAt = string(data), time.Now()
	return nil
}

func (s *Simulated) facts() (bundle.Report, error) {
	r := bundle.Report{
		Runtime: s.ID, Fleet: s.root.Fleet, AgentVersion: "simulated", ClusterUID: s.ID, Features: s.features,
	}
	public, err := s.signer.PublicKey()
	if err != nil {
		return r, err
	}
	encoded, err := trust.EncodePublicKey(public)
	if err != nil {
		return r, err
	}
	proof, err := s.token.Prove(s.ID, public)
	if err != nil {
		return r, err
	}
	r.Enrollment = &trust.Enrollment{PublicKey: encoded, Proof: proof, TokenExpires: s.token.Expires.Unix()}
	if s.current == nil {
		return r, nil
	}
	p := s.current.Statement.Predicate
	r.Observed = &bundle.Observed{Epoch: p.Epoch, Sequence: p.Sequence, Digest: s.current.Digest}
	if p.Deleting {
		return r, nil // the runtime does not have a Kyma anymore
	}
	r.Kyma = &bundle.ReportedKyma{Spec: s.current.State.Kyma.Spec, Generation: 1 + s.edits, State: v1beta2.StateReady}
	if s.own != nil {
		r.Kyma.Spec = *s.own
	}
	for _, name := range slices.Sorted(maps.Keys(s.has)) {
		m := s.has[name]
		module := bundle.ReportedModule{
			Name: name, Channel: m.Channel, Version: m.Version, State: v1beta2.StateReady, Maintenance: s.waits[name],
		}
		if module.Maintenance {
			module.Message = "the upgrade waits for the maintenance window"
		}
		if s.breaks[m.Version] {
			module.State, module.Message = v1beta2.StateError, "Deployment kyma-system/"+name+" cannot start"
		}
		for _, check := range m.Checks {
			outcome, measured := s.outcomes[check.Name]
			if !measured {
				outcome = v1beta2.CheckOutcome{Name: check.Name, Result: v1beta2.CheckPassed}
			}
			module.Checks = append(module.Checks, bundle.ReportedCheck{CheckOutcome: outcome})
		}
		r.Modules = append(r.Modules, module)
	}
	return r, nil
}

func (s *Simulated) close() {
	s.stop()
	<-s.ended
}
