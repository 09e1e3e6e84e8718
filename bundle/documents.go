package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/window"
)

// APIVersion is that of the two documents of a bundle.
const APIVersion = "kyma-pull.dev/v1"

// DesiredState is what a runtime shall run. It holds nothing that names a runtime: two runtimes that want the same
// thing have the same bytes.
type DesiredState struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Kyma seeds the runtime's own Kyma.
	Kyma KymaSeed `json:"kyma"`
	// Manifests are the modules to install, sorted by name.
	Manifests []Manifest `json:"manifests"`
	// Offers are what a runtime with autonomy may choose from before the control plane answers: every module that it may
	// have, once for each channel, resolved like Manifests, sorted by module and channel. Nothing of them is installed
	// that its Kyma does not ask for.
	Offers []Manifest `json:"offers,omitempty"`
	// Leaving are modules that shall go and may still be there because something blocks them: while it does they are kept
	// at this version, sorted by name. They are never installed anew.
	Leaving []Manifest `json:"leaving,omitempty"`
	// Problems are the modules that were asked for and could not be resolved (or only partly), sorted by module.
	Problems []Problem `json:"problems,omitempty"`
	// CRDs are the names of the CustomResourceDefinitions that the runtime must serve for this state to be written.
	CRDs []string `json:"crds"`
	// Settings tune the agent.
	Settings Settings `json:"settings"`
	// Watchers are what the runtime is to watch, sorted by name.
	Watchers []Watcher `json:"watchers,omitempty"`
	// Maintenance is when modules that require downtime may be upgraded; nil leaves it to any time. A schedule without a
	// window is another thing: by it they never are.
	Maintenance *window.Schedule `json:"maintenance,omitempty"`
	// Takeover is how far the runtime is taken over from another product, empty when it is not. Agents without
	// FeatureTakeover refuse such a state.
	Takeover TakeoverPhase `json:"takeover,omitempty"`
}

// KymaSeed is what the control plane says about the runtime's Kyma. Labels and annotations are kept in line forever;
// the spec is written once, when the runtime has no Kyma yet, for it then belongs to the runtime.
type KymaSeed struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        v1beta2.KymaSpec  `json:"spec"`
}

// Manifest is one module to install.
type Manifest struct {
	// Name is that of the Manifest object in the runtime.
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Module, Channel, Version, Component and Template say where the Manifest comes from.
	Module    string `json:"module"`
	Channel   string `json:"channel,omitempty"`
	Version   string `json:"version"`
	Component string `json:"component,omitempty"`
	Template  string `json:"template,omitempty"`
	// Spec is written to the object as it is.
	Spec v1beta2.ManifestSpec `json:"spec"`
	// Content are the blobs that installing needs, all of them: the agent resolves nothing itself.
	Content []Content `json:"content"`
	// Release are the documents that prove that the component was released: its descriptor, those it refers to, and the
	// manifests of artifacts among its contents. There are none unless the root of trust has release keys.
	Release []Content `json:"release,omitempty"`
	// RequiresDowntime lets an upgrade to this version wait for the runtime's maintenance window.
	RequiresDowntime bool `json:"requiresDowntime,omitempty"`
	// Unmanaged says that the module's objects stay as they are and are no longer looked after.
	Unmanaged bool `json:"unmanaged,omitempty"`
	// Inherited are the objects that another product installed of this module in the runtime, as SortObjects returns them.
	// What is installed of the module takes them over; those that it does not have are deleted, if they are still the
	// other product's.
	Inherited []ObjectRef `json:"inherited,omitempty"`
}

// Content is one blob of a module, named by repository and digest, never by tag.
type Content struct {
	// Name is the resource's name in its component, such as "raw-manifest".
	Name string `json:"name"`
	// Repository is an OCI repository with its host, or, in an OCI layout, a path relative to the bundle's prefix when
	// it starts with "./".
	Repository string        `json:"repository"`
	MediaType  string        `json:"mediaType"`
	Digest     digest.Digest `json:"digest"`
	SizeBytes  int64         `json:"size"`
}

// Descriptor returns the content as its repository knows it.
func (c Content) Descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: c.MediaType, Digest: c.Digest, Size: c.SizeBytes}
}

// Problem is why a module that was asked for is not, or not as asked, among the Manifests.
type Problem struct {
	Module  string        `json:"module"`
	Channel string        `json:"channel,omitempty"`
	State   v1beta2.State `json:"state"`
	// Reason is one of reason.Problems, empty for a remark and from a publisher without reasons.
	Reason  reason.Reason `json:"reason,omitempty"`
	Message string        `json:"message"`
}

// Catalog is what a runtime may choose from.
type Catalog struct {
	APIVersion         string         `json:"apiVersion"`
	Kind               string         `json:"kind"`
	ModuleTemplates    []CatalogEntry `json:"moduleTemplates"`
	ModuleReleaseMetas []CatalogEntry `json:"moduleReleaseMetas"`
}

// CatalogEntry is one ModuleTemplate or ModuleReleaseMeta as the runtime shall see it. The spec is kept as it was
// written, so that fields this version does not know reach the runtime all the same.
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

// EncodeDesiredState returns the document's bytes. Equal states give equal bytes.
func EncodeDesiredState(state DesiredState) ([]byte, error) {
	state.APIVersion, state.Kind = APIVersion, kindDesiredState
	return json.Marshal(state)
}

// EncodeCatalog returns the document's bytes. Equal catalogs give equal bytes.
func EncodeCatalog(catalog Catalog) ([]byte, error) {
	catalog.APIVersion, catalog.Kind = APIVersion, kindCatalog
	return json.Marshal(catalog)
}

// DecodeDesiredState reads a DesiredState that is authenticated and checks what the types cannot say: see
// decodeVerified. Errors name the field.
func DecodeDesiredState(data []byte) (DesiredState, error) {
	var state DesiredState
	if len(data) > MaxDocumentBytes {
		return state, fmt.Errorf("desired state: larger than %d bytes", MaxDocumentBytes)
	}
	if err := decodeVerified(data, &state); err != nil {
		return state, fmt.Errorf("desired state: %w", err)
	}
	if err := checkHeader(state.APIVersion, state.Kind, kindDesiredState); err != nil {
		return state, err
	}
	return state, state.check()
}

// DecodeCatalog reads a Catalog that is authenticated: see decodeVerified. Errors name the field.
func DecodeCatalog(data []byte) (Catalog, error) {
	var catalog Catalog
	if len(data) > MaxDocumentBytes {
		return catalog, fmt.Errorf("catalog: larger than %d bytes", MaxDocumentBytes)
	}
	if err := decodeVerified(data, &catalog); err != nil {
		return catalog, fmt.Errorf("catalog: %w", err)
	}
	return catalog, checkHeader(catalog.APIVersion, catalog.Kind, kindCatalog)
}

func (s DesiredState) checkOffers() error {
	if len(s.Offers) > MaxOffers {
		return fmt.Errorf("offers: %d, at most %d", len(s.Offers), MaxOffers)
	}
	if len(s.Offers) > 0 && s.Settings.Autonomy != AutonomyCatalog {
		return fmt.Errorf("offers: are for settings.autonomy %s", AutonomyCatalog)
	}
	seen := map[[2]string]bool{}
	for i, m := range s.Offers {
		key := [2]string{m.Module, m.Channel}
		if m.Name == "" || m.Module == "" || m.Channel == "" || seen[key] {
			return fmt.Errorf("offers[%d]: name, module and channel are required, and module %s at channel %s once", i, m.Module, m.Channel)
		}
		seen[key] = true
		if err := m.Check(); err != nil {
			return fmt.Errorf("offers[%d]: %w", i, err)
		}
	}
	return nil
}

// Check returns the first problem of a manifest by itself, whatever else its document contains. The error names the
// field.
func (m Manifest) Check() error {
	if m.Name == "" || m.Module == "" {
		return errors.New("name and module are required")
	}
	if n := len(m.Release); n > trust.MaxReleaseDocuments {
		return fmt.Errorf("release: %d documents, at most %d", n, trust.MaxReleaseDocuments)
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
	return nil
}

// ContentBytes returns the size of all blobs that the agent fetches for the manifest.
func (m Manifest) ContentBytes() int64 {
	total := int64(0)
	for _, c := range slices.Concat(m.Content, m.Release) {
		total += c.SizeBytes
	}
	return total
}

// CheckCatalogEntry returns why no bundle carries a CatalogEntry, given in JSON: it is too large, or nested so deeply
// that agents refuse the document around it. The error names the field.
func CheckCatalogEntry(encoded []byte) error {
	if len(encoded) > MaxCatalogEntryBytes {
		return fmt.Errorf("has %d bytes, at most %d: move large content into the component",
			len(encoded), MaxCatalogEntryBytes)
	}
	if err := strict.CheckJSON(encoded, strict.MaxJSONDepth-entryDepth); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	return nil
}

// entryDepth is the number of levels around a CatalogEntry in its document: the object and the list.
const entryDepth = 2

func (c Content) check() error {
	if err := c.Digest.Validate(); err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	if c.Digest.Algorithm() != digest.SHA256 && c.Digest.Algorithm() != digest.SHA512 {
		return fmt.Errorf("digest: algorithm %s is not accepted", c.Digest.Algorithm())
	}
	if c.SizeBytes < 0 || c.SizeBytes > MaxLayerBytes {
		return fmt.Errorf("size: %d, at most %d", c.SizeBytes, MaxLayerBytes)
	}
	return nil
}

func checkHeader(apiVersion, kind, wantKind string) error {
	if apiVersion != APIVersion || kind != wantKind {
		return fmt.Errorf("document is %s %s, want %s %s", apiVersion, kind, APIVersion, wantKind)
	}
	return nil
}

// All are the Manifests and those that are leaving.
func (s DesiredState) All() []Manifest { return slices.Concat(s.Manifests, s.Leaving) }

func (s DesiredState) check() error {
	if n := len(s.Manifests) + len(s.Leaving); n > MaxManifests {
		return fmt.Errorf("desired state: manifests: %d, at most %d", n, MaxManifests)
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
		return fmt.Errorf("desired state: content of %d bytes in all, at most %d", total, MaxBundleBytes)
	}
	return checkWatchers(s.Watchers)
}
