package ocm

import "encoding/json"

// Descriptor is a component version of schema v2 or v3.
type Descriptor struct {
	// Schema is the schema of the document: SchemaV2 or SchemaV3.
	Schema   string
	Name     string
	Version  string
	Provider Provider
	// CreationTime is the original text, or empty.
	CreationTime       string
	Labels             []Label
	RepositoryContexts []RepositoryContext
	Resources          []Resource
	Sources            []Source
	References         []Reference
	Signatures         []Signature

	document []byte // the original document in JSON
}

// Supported schemas.
const (
	SchemaV2 = "v2"
	SchemaV3 = "v3alpha1"
)

// Provider is the provider of the component.
type Provider struct {
	Name   string
	Labels []Label
}

// Label is a named value. Signatures only cover labels with Signing.
type Label struct {
	Name string
	// Value is JSON with its original numbers, or nil.
	Value   json.RawMessage
	Version string
	Signing bool
	// Merge configures how tools merge the label when they copy a component, or is nil.
	Merge *Merge
}

// Merge specifies the algorithm that merges the values of a label.
type Merge struct {
	Algorithm string
	// Config is the algorithm's configuration in JSON, or nil.
	Config json.RawMessage
}

// Element contains the common fields of resources, sources and references. Name and ExtraIdentity identify an element.
// Version is part of the identity if they are not unique.
type Element struct {
	Name          string
	Version       string
	ExtraIdentity map[string]string
	Labels        []Label
}

// Resource is a resource of a component version.
type Resource struct {
	Element
	Type string
	// Relation is "local" or "external".
	Relation string
	Access   Access
	// Digest is the digest of the content, or nil.
	Digest *Digest
}

// Source is a source that the component was built from.
type Source struct {
	Element
	Type   string
	Access Access
}

// Reference identifies another component version that is part of this component version.
type Reference struct {
	Element
	Component string
	// Digest is the digest of the normalized descriptor, or nil.
	Digest *Digest
}

// Access is the location of a content. The kind of access determines the used fields.
type Access struct {
	// Type is the original text; see Kind.
	Type string
	// LocalReference is the digest of a layer or manifest in the component's own artifact, or several digests of layers
	// to join, separated by commas.
	LocalReference string
	// ReferenceName is the content's original name.
	ReferenceName string
	MediaType     string
	// ImageReference is the image of an ociArtifact, or the reference of a relativeOciReference.
	ImageReference string
	// Repository, Digest and SizeBytes identify an ociBlob.
	Repository string
	Digest     string
	SizeBytes  int64
	// HelmRepository, HelmChart ("name:version" or "name") and HelmVersion identify a Helm chart.
	HelmRepository string
	HelmChart      string
	HelmVersion    string
	// GlobalAccess is another location of a local blob. It is never used.
	GlobalAccess *Access
}

// Digest is a digest in a descriptor.
type Digest struct {
	HashAlgorithm          string
	NormalisationAlgorithm string
	// Value is hexadecimal.
	Value string
}

// Signature is one signature of a component version.
type Signature struct {
	Name   string
	Digest Digest
	// Algorithm, MediaType, Value and Issuer describe the signature.
	Algorithm string
	MediaType string
	Value     string
	Issuer    string
}

// RepositoryContext is a repository that contained the component version. The last context in a descriptor is the
// current repository.
type RepositoryContext struct {
	Type    string
	BaseURL string
	SubPath string
	// ComponentNameMapping is "urlPath" (the default) or "sha256-digest".
	ComponentNameMapping string
}
