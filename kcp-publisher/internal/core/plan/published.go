package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// PublishedBundle is a bundle that a publisher pushed to the registry.
type PublishedBundle struct {
	Predicate bundle.Predicate
	Digest    digest.Digest
	State     bundle.DesiredState
	// StateBlob and CatalogBlob are the OCI descriptors of the two documents in the bundle.
	StateBlob   ocispec.Descriptor
	CatalogBlob ocispec.Descriptor
	// Versions maps each module to its version in the bundle, or to the last published version if the module could not
	// be resolved. Later bundles must not contain older versions.
	Versions map[string]string
	// Changes lists the modules that differ from the previous bundle. It is nil if the difference is unknown or can
	// affect all modules.
	Changes *Changes
}

// RecordedBundle is the last published bundle as recorded in a Kyma's status. The zero value means that no bundle was
// published.
type RecordedBundle struct {
	Epoch, Sequence int64
	Digest          digest.Digest
	// Versions maps each module to its published version.
	Versions map[string]string
	// Removals lists the modules that the bundle removes. For each module that the bundle rolls back, RolledBackFrom
	// contains the version before the rollback.
	Removals       []string
	RolledBackFrom map[string]string
}

func (p *PublishedBundle) hasModule(name string) bool {
	return slices.ContainsFunc(p.State.Manifests, func(m bundle.Manifest) bool { return m.Module == name })
}

// StatusEntry returns the status entry for the published bundle.
func (p *PublishedBundle) StatusEntry() v1beta2.PublishedBundle {
	var from map[string]string
	for _, r := range p.Predicate.Rollback {
		if from == nil {
			from = map[string]string{}
		}
		from[r.Module] = r.From
	}
	commit := ""
	if p.Predicate.Source != nil {
		commit = p.Predicate.Source.Commit
	}
	return v1beta2.PublishedBundle{
		Commit: commit, Removals: slices.Clone(p.Predicate.Removals), Mandatory: p.mandatoryModules(), RolledBackFrom: from,
		Epoch: p.Predicate.Epoch, Sequence: p.Predicate.Sequence, Digest: p.Digest.String(),
		Time: metav1.NewTime(p.Predicate.IssuedAt.Truncate(time.Second)), Versions: maps.Clone(p.Versions),
		KymaGeneration: p.Predicate.KymaGeneration,
		Certificate:    certificateValidity(p.Predicate.Certificate),
	}
}

// publishedChannels returns the channels of the modules in the last bundle. A module's channel differs from the
// requested channel if the requested one does not exist. publishedChannels omits modules that wait for their
// maintenance window, because their status contains the channel in an earlier bundle.
func publishedChannels(kyma *v1beta2.Kyma) map[string]string {
	channels := map[string]string{}
	for _, m := range kyma.Status.Modules {
		if !m.Maintenance {
			channels[m.Name] = m.Channel
		}
	}
	return channels
}

func (p *PublishedBundle) mandatoryModules() (modules []string) {
	for _, m := range p.State.Manifests {
		if m.Labels[v1beta2.LabelMandatoryModule] == v1beta2.True {
			modules = append(modules, m.Module)
		}
	}
	slices.Sort(modules)
	return modules
}

// certificateValidity returns the validity period of a certificate, or nil for an invalid certificate. It does not
// verify the certificate's signature. Agents do.
func certificateValidity(text string) *v1beta2.CertificateLife {
	from, until, err := trust.CertificateValidity(text)
	if text == "" || err != nil {
		return nil
	}
	return &v1beta2.CertificateLife{NotBefore: metav1.NewTime(from), NotAfter: metav1.NewTime(until)}
}

// Changes lists the modules that differ between two consecutive bundles.
type Changes struct {
	// Modules are the added, removed and changed modules, sorted.
	Modules []string
}

// ChangesBetween returns the modules that differ between two desired states. It returns nil if the change can affect
// all modules. It ignores settings that do not affect module installation.
func ChangesBetween(before, after bundle.DesiredState) *Changes {
	if before.Takeover != after.Takeover ||
		!equality.Semantic.DeepEqual(installSettings(before.Settings), installSettings(after.Settings)) {
		return nil
	}
	var changed []string
	was := make(map[string]*bundle.Manifest, len(before.Manifests))
	for i := range before.Manifests {
		was[before.Manifests[i].Module] = &before.Manifests[i]
	}
	for i := range after.Manifests {
		m := &after.Manifests[i]
		if old := was[m.Module]; old == nil || !equality.Semantic.DeepEqual(*old, *m) {
			changed = append(changed, m.Module)
		}
		delete(was, m.Module)
	}
	for module := range was {
		changed = append(changed, module)
	}
	slices.Sort(changed)
	return &Changes{Modules: slices.Compact(changed)}
}

func installSettings(s bundle.Settings) bundle.Settings {
	s.PollInterval, s.ReportInterval, s.Agent, s.Autonomy, s.Details = metav1.Duration{}, metav1.Duration{}, "", "", nil
	return s
}

// withValues adds to c the modules whose runtime values differ between two bundles, and returns the result.
func (c *Changes) withValues(before, after PublishedBundle) *Changes {
	if c == nil || maps.Equal(before.Predicate.Values, after.Predicate.Values) {
		return c
	}
	modules := slices.Clone(c.Modules)
	for _, m := range after.State.Manifests {
		was, is := before.Predicate.Values.For(m).String(), after.Predicate.Values.For(m).String()
		if was != is {
			modules = append(modules, m.Module)
		}
	}
	slices.Sort(modules)
	return &Changes{Modules: slices.Compact(modules)}
}

// ChangesSince returns the modules that differ between an earlier bundle and p. states contains the
// modules that differ between the desired states of the two bundles. ChangesSince adds the modules whose runtime values
// differ.
func (p PublishedBundle) ChangesSince(before PublishedBundle, states *Changes) *Changes {
	return states.withValues(before, p)
}
