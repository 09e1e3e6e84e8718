package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/window"
)

// APIVersion is the value of the field apiVersion in a DesiredState and a Catalog.
const APIVersion = "kyma-pull.dev/v1"

// DesiredState defines the modules that a runtime must run. It does not name a runtime, so runtimes with the same
// modules share one document.
type DesiredState struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Kyma contains the initial content for the Kyma in the runtime.
	Kyma KymaSeed `json:"kyma"`
	// Manifests are the modules to install, sorted by name.
	Manifests []Manifest `json:"manifests"`
	// Offers lists the modules that a runtime with autonomy can install without waiting for the control plane, sorted
	// by module and channel. The agent installs one only if the runtime's Kyma requests it.
	Offers []Manifest `json:"offers,omitempty"`
	// Leaving lists the modules to remove, sorted by name. If the removal of a module is blocked, the module stays
	// installed with the version in its entry.
	Leaving []Manifest `json:"leaving,omitempty"`
	// Problems lists the requested modules that could not be fully resolved, sorted by module.
	Problems []Problem `json:"problems,omitempty"`
	// CRDs lists the CustomResourceDefinitions that the runtime must serve before the agent can apply this state.
	CRDs     []string `json:"crds"`
	Settings Settings `json:"settings"`
	// Watchers select the objects that the runtime watches, sorted by name.
	Watchers []Watcher `json:"watchers,omitempty"`
	// Maintenance contains the windows for upgrades that require downtime. Nil allows such upgrades at any time.
	Maintenance *window.Schedule `json:"maintenance,omitempty"`
	// Takeover is the phase of the runtime's takeover from another product, or empty.
	Takeover TakeoverPhase `json:"takeover,omitempty"`
}

// KymaSeed is the content that the control plane provides for the Kyma in the runtime. The agent applies the labels and
// annotations continuously, and the spec only when it creates the Kyma.
type KymaSeed struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        v1beta2.KymaSpec  `json:"spec"`
}

// Manifest defines one module to install.
type Manifest struct {
	// Name is the name of the Manifest object in the runtime.
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Module, Channel, Version, Component and Template identify the module version that the Manifest installs.
	Module    string `json:"module"`
	Channel   string `json:"channel,omitempty"`
	Version   string `json:"version"`
	Component string `json:"component,omitempty"`
	Template  string `json:"template,omitempty"`
	// Spec is written to the Manifest object unchanged.
	Spec v1beta2.ManifestSpec `json:"spec"`
	// Content lists all blobs that the installation needs.
	Content []Content `json:"content"`
	// Release lists the documents that prove the component's release. It is empty unless the root of trust has release
	// keys.
	Release []Content `json:"release,omitempty"`
	// RequiresDowntime makes an upgrade to this version wait for the runtime's maintenance window.
	RequiresDowntime bool `json:"requiresDowntime,omitempty"`
	// Unmanaged makes the agent stop managing the module. The module's objects stay in the runtime.
	Unmanaged bool `json:"unmanaged,omitempty"`
	// Inherited lists the module's objects that another product installed in the runtime, in the order of SortObjects.
	// The agent adopts them, or deletes them if the module does not contain them.
	Inherited []ObjectRef `json:"inherited,omitempty"`
	// Checks lists the checks that the agent runs after the module has become ready in this version, sorted by name.
	// The agent runs them for the duration CheckFor, or MaxCheckFor if a result is Inconclusive.
	Checks   []fleet.Check   `json:"checks,omitempty"`
	CheckFor metav1.Duration `json:"checkFor,omitzero"`
}

// Content is one module blob, identified by repository and digest, never by tag.
type Content struct {
	// Name is the resource's name in the module's OCM component, such as "raw-manifest".
	Name string `json:"name"`
	// Repository is an OCI repository with its host. In an OCI image layout, a repository that starts with "./" is
	// relative to the bundle's registry prefix.
	Repository string        `json:"repository"`
	MediaType  string        `json:"mediaType"`
	Digest     digest.Digest `json:"digest"`
	SizeBytes  int64         `json:"size"`
}

// Descriptor returns the content's descriptor in its repository.
func (c Content) Descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: c.MediaType, Digest: c.Digest, Size: c.SizeBytes}
}

// Problem explains why a requested module is missing from the Manifests or differs from the request.
type Problem struct {
	Module  string        `json:"module"`
	Channel string        `json:"channel,omitempty"`
	State   v1beta2.State `json:"state"`
	// Reason is one of reason.Problems. It is empty if the message only informs the user and reports no failure.
	Reason  reason.Reason `json:"reason,omitempty"`
	Message string        `json:"message"`
	// Version is the module version that could not be installed, or empty. The publisher uses it internally. Bundles do
	// not contain it.
	Version string `json:"-"`
}

// Catalog contains the modules that a runtime can choose from.
type Catalog struct {
	APIVersion         string         `json:"apiVersion"`
	Kind               string         `json:"kind"`
	ModuleTemplates    []CatalogEntry `json:"moduleTemplates"`
	ModuleReleaseMetas []CatalogEntry `json:"moduleReleaseMetas"`
}

// CatalogEntry is a ModuleTemplate or ModuleReleaseMeta for the runtime. The publisher does not change the spec.
type CatalogEntry struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        json.RawMessage   `json:"spec"`
}

const (
	kindDesiredState = "DesiredState"
	kindCatalog      = "Catalog"
)

// EncodeDesiredState returns the document as JSON. Equal states have equal bytes, so they have the same digest.
func EncodeDesiredState(state DesiredState) ([]byte, error) {
	state.APIVersion, state.Kind = APIVersion, kindDesiredState
	return json.Marshal(state)
}

// EncodeCatalog returns the document as JSON. Equal catalogs have equal bytes, so they have the same digest.
func EncodeCatalog(catalog Catalog) ([]byte, error) {
	catalog.APIVersion, catalog.Kind = APIVersion, kindCatalog
	return json.Marshal(catalog)
}

// DecodeDesiredState decodes and validates a DesiredState. The caller must have verified the digest. Errors name the
// field.
func DecodeDesiredState(data []byte) (DesiredState, error) {
	var state DesiredState
	if len(data) > MaxDocumentBytes {
		return state, fmt.Errorf("desired state is larger than %d bytes", MaxDocumentBytes)
	}
	if err := decodeVerified(data, &state); err != nil {
		return state, fmt.Errorf("desired state: %w", err)
	}
	if err := checkHeader(state.APIVersion, state.Kind, kindDesiredState); err != nil {
		return state, err
	}
	return state, state.check()
}

// DecodeCatalog decodes and validates a Catalog. The caller must have verified the digest. Errors name the field.
func DecodeCatalog(data []byte) (Catalog, error) {
	var catalog Catalog
	if len(data) > MaxDocumentBytes {
		return catalog, fmt.Errorf("catalog is larger than %d bytes", MaxDocumentBytes)
	}
	if err := decodeVerified(data, &catalog); err != nil {
		return catalog, fmt.Errorf("catalog: %w", err)
	}
	return catalog, checkHeader(catalog.APIVersion, catalog.Kind, kindCatalog)
}

func (s DesiredState) checkOffers() error {
	if len(s.Offers) > MaxOffers {
		return fmt.Errorf("offers: %d entries, must be at most %d", len(s.Offers), MaxOffers)
	}
	if len(s.Offers) > 0 && s.Settings.Autonomy != AutonomyCatalog {
		return fmt.Errorf("offers: only allowed with settings.autonomy %s", AutonomyCatalog)
	}
	seen := map[[2]string]bool{}
	for i, m := range s.Offers {
		key := [2]string{m.Module, m.Channel}
		if m.Name == "" || m.Module == "" || m.Channel == "" || seen[key] {
			return fmt.Errorf(
				"offers[%d]: name, module and channel are required, and module %s in channel %s must be unique", i,
				m.Module, m.Channel)
		}
		seen[key] = true
		if err := m.Check(); err != nil {
			return fmt.Errorf("offers[%d]: %w", i, err)
		}
	}
	return nil
}

// ManifestName returns the name of a module's Manifest in the runtime. The module's objects have this name in their
// module label.
func ManifestName(module string) string { return strings.ReplaceAll(module, "/", "-") }

// Check validates a manifest without the rest of the document. The error names the field.
func (m Manifest) Check() error {
	if m.Name == "" || m.Module == "" {
		return errors.New("name and module are required")
	}
	if want := ManifestName(m.Module); m.Name != want {
		return fmt.Errorf("name: %q, must be %q for module %s", m.Name, want, m.Module)
	}
	if _, err := ParseUsedValues(m.Annotations[v1beta2.AnnotationUsesValues]); err != nil {
		return fmt.Errorf("annotation %s: %w", v1beta2.AnnotationUsesValues, err)
	}
	if n := len(m.Release); n > trust.MaxReleaseDocuments {
		return fmt.Errorf("release: %d documents, must be at most %d", n, trust.MaxReleaseDocuments)
	}
	for _, field := range []struct {
		name     string
		contents []Content
	}{{"content", m.Content}, {"release", m.Release}} {
		for i, c := range field.contents {
			if err := c.check(); err != nil {
				return fmt.Errorf("%s[%d].%w", field.name, i, err)
			}
		}
	}
	if d := m.CheckFor.Duration; d < 0 || d > MaxCheckFor {
		return fmt.Errorf("checkFor: %s, must be at most %s", d, MaxCheckFor)
	}
	return ValidateChecks(m.Checks, false)
}

// ContentBytes returns the size of all blobs that the agent fetches for the manifest.
func (m Manifest) ContentBytes() int64 {
	total := int64(0)
	for _, c := range slices.Concat(m.Content, m.Release) {
		total += c.SizeBytes
	}
	return total
}

// CheckCatalogEntry returns an error if a CatalogEntry, encoded as JSON, is too large or too deeply nested for agents.
// The error names the field.
func CheckCatalogEntry(encoded []byte) error {
	if len(encoded) > MaxCatalogEntryBytes {
		return fmt.Errorf("the object is %d bytes, must be at most %d: move large content into the component",
			len(encoded), MaxCatalogEntryBytes)
	}
	if err := strict.CheckJSON(encoded, strict.MaxJSONDepth-entryDepth); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	return nil
}

const entryDepth = 2

func (c Content) check() error {
	if err := c.Digest.Validate(); err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	if c.Digest.Algorithm() != digest.SHA256 && c.Digest.Algorithm() != digest.SHA512 {
		return fmt.Errorf("digest: algorithm %s is not supported", c.Digest.Algorithm())
	}
	if c.SizeBytes < 0 || c.SizeBytes > MaxLayerBytes {
		return fmt.Errorf("size: %d bytes, must be at most %d", c.SizeBytes, MaxLayerBytes)
	}
	return nil
}

func checkHeader(apiVersion, kind, wantKind string) error {
	if apiVersion != APIVersion || kind != wantKind {
		return fmt.Errorf("document has apiVersion %s and kind %s, must have apiVersion %s and kind %s", apiVersion, kind,
			APIVersion, wantKind)
	}
	return nil
}

// All returns the Manifests for modules to install, followed by the Manifests for modules to remove.
func (s DesiredState) All() []Manifest { return slices.Concat(s.Manifests, s.Leaving) }

func (s DesiredState) check() error {
	if n := len(s.Manifests) + len(s.Leaving); n > MaxManifests {
		return fmt.Errorf("desired state: manifests: %d entries, must be at most %d", n, MaxManifests)
	}
	if err := s.Settings.Check(); err != nil {
		return fmt.Errorf("desired state: %w", err)
	}
	if s.Maintenance != nil {
		if err := s.Maintenance.Check(); err != nil {
			return fmt.Errorf("desired state: maintenance.%w", err)
		}
	}
	for _, check := range []func() error{s.checkOffers, s.checkTakeover} {
		if err := check(); err != nil {
			return fmt.Errorf("desired state: %w", err)
		}
	}
	for i, p := range s.Problems {
		if err := p.Reason.Check(); err != nil {
			return fmt.Errorf("desired state: problems[%d].reason: %w", i, err)
		}
	}
	total := int64(0)
	names, modules := map[string]bool{}, map[string]bool{}
	for i, m := range s.All() {
		if err := m.Check(); err != nil {
			return fmt.Errorf("desired state: manifests[%d]: %w", i, err)
		}
		if names[m.Name] || modules[m.Module] {
			return fmt.Errorf("desired state: manifests[%d]: module %s or name %s appears twice", i, m.Module, m.Name)
		}
		names[m.Name], modules[m.Module] = true, true
		total += m.ContentBytes()
	}
	if total > MaxBundleBytes {
		return fmt.Errorf("desired state: %d bytes of content in total, must be at most %d", total, MaxBundleBytes)
	}
	return checkWatchers(s.Watchers)
}

func (s DesiredState) checkTakeover() error {
	if !s.Takeover.isKnown() {
		return fmt.Errorf("takeover %s: must be %s, %s, %s or empty", Quote(string(s.Takeover), maxQuotedBytes),
			TakeoverAdopt, TakeoverClean, TakeoverRelease)
	}
	inherited := 0
	for i, m := range s.All() {
		if err := checkObjects(m.Inherited); err != nil {
			return fmt.Errorf("manifests[%d].inherited%w", i, err)
		}
		inherited += len(m.Inherited)
	}
	if inherited > MaxInherited {
		return fmt.Errorf("manifests inherit %d objects in total, must be at most %d", inherited, MaxInherited)
	}
	for i, m := range s.Offers {
		if len(m.Inherited) > 0 {
			return fmt.Errorf("offers[%d].inherited: only manifests can inherit objects", i)
		}
	}
	return nil
}
