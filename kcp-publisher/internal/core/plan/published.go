package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
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
	// Versions maps each module to its version in the bundle. For a module that could not be resolved, it is the last
	// published version. Later bundles must not contain older versions.
	Versions map[string]string
	// Changes lists the modules that differ from the previous bundle. It is nil if the difference is unknown or affects
	// all modules.
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

// TemplateNames returns the names of the ModuleTemplates of the bundle's modules.
func (p *PublishedBundle) TemplateNames() []string {
	names := make([]string, 0, len(p.State.Manifests))
	for _, m := range p.State.Manifests {
		names = append(names, m.Template)
	}
	return names
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

// isNewer reports whether the bundle in the Kyma's status is newer than this bundle.
func (m *RecordedBundle) isNewer(published *PublishedBundle) bool {
	return m != nil &&
		(m.Epoch > published.Predicate.Epoch || m.Epoch == published.Predicate.Epoch &&
			m.Sequence > published.Predicate.Sequence)
}
