package agent

import (
	"context"
	"slices"

	"github.com/go-logr/logr"
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/internal/images"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/agent/logonce"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/contentstore"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/objects"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/prove"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

// proving runs module checks.
type proving struct {
	runner   *prove.Runner
	restorer *objects.Restorer
	store    *contentstore.Store
	accounts guard.Accounts
	// logged contains the last log line about each failure.
	logged logonce.Memo
	// checksRestored is true after the saved check results were read.
	checksRestored bool
	// checksByContent contains module checks, by the module's content digest.
	checksByContent map[digest.Digest]moduleChecks
	// targetCache contains the prove.Target for each module in the last reconciliation. The next reconciliation reuses
	// a target if its input did not change.
	targetCache map[string]cachedTarget
}

// cachedTarget is a prove.Target with the input that the agent computed it from.
type cachedTarget struct {
	input  targetInput
	target prove.Target
}

// targetInput identifies the input for a prove.Target: the bundle's desired state, the installed Manifest, and the
// error from reading the checks in the module's content.
type targetInput struct {
	state                    digest.Digest
	uid                      types.UID
	resourceVersion, problem string
}

// moduleChecks contains the checks in a module's content, or the reason why they cannot be read.
type moduleChecks struct {
	checks  []fleet.Check
	problem string
}

const loggedChecks = "checks"

// measureBeforeUpgrade runs each module's checks before its upgrade, for comparison, and records first installations. A
// failed measurement does not block the upgrade.
func (p *proving) measureBeforeUpgrade(
	ctx context.Context, log logr.Logger, b *bundle.Bundle, installed []v1beta2.Manifest, gate maintenance.Gate,
	contentErrors map[string]error,
) {
	if !p.restoreChecks(ctx, log) {
		return
	}
	held := gate.WaitingUpgrades(b, installed)
	var upgrades, installations []prove.Target
	for _, t := range p.checkTargets(ctx, b, installed) {
		_, isHeld := held[t.Module]
		switch {
		case isHeld || contentErrors[t.Module] != nil || t.Installed || hasBegun(t, installed):
		case isInstalled(t.Module, installed):
			upgrades = append(upgrades, t)
		default:
			installations = append(installations, t)
		}
	}
	if len(upgrades)+len(installations) == 0 {
		return
	}
	p.runner.RecordInstallations(installations)
	p.runner.MeasureBefore(ctx, upgrades)
	p.saveChecks(ctx, log)
}

// hasBegun reports whether the agent has started to apply the target's version. A value that is measured now is not
// from before the upgrade.
func hasBegun(t prove.Target, installed []v1beta2.Manifest) bool {
	return slices.ContainsFunc(installed, func(m v1beta2.Manifest) bool {
		applied := record.ReadUnverified(&m).Applied
		return m.Module() == t.Module && m.Spec.Version == t.Version && applied != nil && applied.InProgress != ""
	})
}

func isInstalled(module string, installed []v1beta2.Manifest) bool {
	return slices.ContainsFunc(installed, func(m v1beta2.Manifest) bool { return m.Module() == module })
}

// updateChecks passes the bundle's modules to the check runner, saves check results, and starts a requested check run.
func (p *proving) updateChecks(ctx context.Context, log logr.Logger, b *bundle.Bundle, installed []v1beta2.Manifest) {
	if b == nil || !p.restoreChecks(ctx, log) {
		return
	}
	p.runner.Set(p.checkTargets(ctx, b, installed))
	p.saveChecks(ctx, log)
	p.startCheckRun(ctx, b, installed)
}

// startCheckRun starts the check run that the bundle's settings request, once for each run ID.
func (p *proving) startCheckRun(ctx context.Context, b *bundle.Bundle, installed []v1beta2.Manifest) {
	run := bundleSettings(b).CheckRun
	if run == nil || p.runner.HasRun(run.ID) {
		return
	}
	at := slices.IndexFunc(b.State.Manifests, func(m bundle.Manifest) bool { return m.Module == run.Module })
	live := slices.IndexFunc(installed, func(m v1beta2.Manifest) bool { return m.Module() == run.Module })
	if at < 0 || live < 0 || b.State.Manifests[at].Unmanaged {
		p.runner.SetRun(run.ID, prove.Target{Module: run.Module},
			"module "+run.Module+" is not installed in the runtime or is unmanaged")
		return
	}
	want := b.State.Manifests[at]
	want.Checks = run.Checks
	t := p.newTarget(want, installedManifest(want, installed), p.loadChecks(ctx, want, map[digest.Digest]moduleChecks{}))
	// The running version differs from the bundle's version while the module's upgrade waits.
	t.Version = record.RunningVersion(&installed[live])
	p.runner.SetRun(run.ID, t, "")
}

// restoreChecks reads the previous process's saved check results once. It reports whether they were read.
func (p *proving) restoreChecks(ctx context.Context, log logr.Logger) bool {
	if p.checksRestored {
		return true
	}
	records, err := p.restorer.LoadChecks(ctx)
	if err != nil {
		if p.logged.Update(loggedChecks, err.Error()) {
			log.Error(err, "failed to read the saved check results, retrying")
		}
		return false
	}
	p.runner.Restore(records)
	p.checksRestored = true
	return true
}

func (p *proving) saveChecks(ctx context.Context, log logr.Logger) {
	records, unsaved := p.runner.UnsavedRecords()
	if !unsaved {
		return
	}
	if err := p.restorer.SaveChecks(ctx, records); err != nil {
		if p.logged.Update(loggedChecks, err.Error()) {
			log.Error(err, "failed to save the check results, retrying")
		}
		return
	}
	p.logged.Update(loggedChecks, "")
	p.runner.MarkSaved(records)
}

// checkTargets returns a check target for each managed module with checks.
func (p *proving) checkTargets(ctx context.Context, b *bundle.Bundle, installed []v1beta2.Manifest) []prove.Target {
	var targets []prove.Target
	used, kept := map[digest.Digest]moduleChecks{}, map[string]cachedTarget{}
	for _, want := range b.State.Manifests {
		if len(want.Checks) == 0 || want.Unmanaged {
			continue
		}
		live, found := installedManifest(want, installed), p.loadChecks(ctx, want, used)
		from := targetInput{state: b.Config.Digest, problem: found.problem}
		if live != nil {
			from.uid, from.resourceVersion = live.UID, live.ResourceVersion
		}
		known, ok := p.targetCache[want.Module]
		if !ok || known.input != from || from.state == "" {
			known = cachedTarget{from, p.newTarget(want, live, found)}
		}
		kept[want.Module] = known
		targets = append(targets, known.target)
	}
	p.checksByContent, p.targetCache = used, kept
	return targets
}

// installedManifest returns the installed Manifest for a module in the bundle, or nil.
func installedManifest(want bundle.Manifest, installed []v1beta2.Manifest) *v1beta2.Manifest {
	for i := range installed { // slices.IndexFunc would copy each Manifest
		if installed[i].Name == want.Name {
			return &installed[i]
		}
	}
	return nil
}

// newTarget returns the prove.Target for a module in the bundle: its checks, its installed state, and the account that
// runs the checks. live is nil if the module is not installed.
func (p *proving) newTarget(want bundle.Manifest, live *v1beta2.Manifest, found moduleChecks) prove.Target {
	t := prove.Target{
		Module: want.Module, Version: want.Version, CheckFor: want.CheckFor.Duration,
		Definitions: checks.Define(want.Checks, found.checks, found.problem),
	}
	if live != nil {
		t.User, t.Namespaces = p.accounts.UserFor(live.Module(), live.ModuleLabel()), moduleNamespaces(live)
		t.Installed = record.RunningVersion(live) == want.Version && live.Spec.Version == want.Version
		// A Manifest with invalid rules is not ready either, because the agent cannot apply its objects.
		rules, err := images.RulesOf(live)
		t.Images, t.Ready = rules, t.Installed && isReady(live) && err == nil
	}
	return t
}

// loadChecks returns the checks in a module's content. It also adds the checks to the map `used`, which is the next
// round's cache.
func (p *proving) loadChecks(ctx context.Context, m bundle.Manifest, used map[digest.Digest]moduleChecks) moduleChecks {
	at := slices.IndexFunc(m.Content, func(c bundle.Content) bool { return c.Name == bundle.ContentChecks })
	if at < 0 {
		return moduleChecks{}
	}
	d := m.Content[at].Digest
	found, known := p.checksByContent[d]
	if !known {
		data, err := p.store.Load(ctx, d)
		if err != nil {
			return moduleChecks{problem: err.Error()} // not added to the cache, so the next round loads the content again
		}
		if found.checks, err = checks.ParseShipped(data); err != nil {
			found.problem = err.Error()
		}
	}
	used[d] = found
	return found
}

// isReady reports whether a Manifest is ready in its current generation.
func isReady(m *v1beta2.Manifest) bool {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionReady)
	return m.DeletionTimestamp.IsZero() && m.Status.State == v1beta2.StateReady &&
		ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == m.Generation
}

// moduleNamespaces returns the sorted namespaces of a module's objects. The result is never nil.
func moduleNamespaces(m *v1beta2.Manifest) []string {
	found := []string{}
	for _, r := range m.Status.Synced {
		switch {
		case r.Namespace != "":
			found = append(found, r.Namespace)
		case r.Group == "" && r.Kind == "Namespace":
			found = append(found, r.Name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
