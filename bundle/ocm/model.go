package ocm

import "encoding/json"

// Descriptor is a component version of either schema.
type Descriptor struct {
	// Schema is the schema of the document: SchemaV2 or SchemaV3.
	Schema   string
	Name     string
	Version  string
	Provider Provider
	// CreationTime is the original text, empty if absent. Normalization requires an RFC 3339 time.
	CreationTime       string
	Labels             []Label
	RepositoryContexts []RepositoryContext
	Resources          []Resource
	Sources            []Source
	References         []Reference
	Signatures         []Signature

	document []byte // the original document in JSON
}

// The supported schemas.
const (
	SchemaV2 = "v2"
	SchemaV3 = "v3alpha1"
)

// Provider is the provider of the component.
type Provider struct {
	Name   string
	Labels []Label
}

// Label is a named value of any form. Signatures only cover labels with Signing.
type Label struct {
	Name string
	// Value is JSON with its original numbers, nil if absent.
	Value   json.RawMessage
	Version string
	Signing bool
	// Merge configures how the value is merged when a component is copied, nil if unset.
	Merge *Merge
}

// Merge specifies the algorithm that merges the values of a label.
type Merge struct {
	Algorithm string
	// Config is JSON in the algorithm's own form, nil if absent.
	Config json.RawMessage
}

// Element contains the common fields of resources, sources and references. Name and ExtraIdentity identify an element.
// If they are not unique, Version is also part of the identity.
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
	// Digest is the digest of the content, or nil if absent.
	Digest *Digest
}

// Source is a source that the component was built from.
type Source struct {
	Element
	Type   string
	Access Access
}

// Reference identifies another component version that is part of this one.
type Reference struct {
	Element
	Component string
	// Digest is the digest of the normalized descriptor, or nil if absent.
	Digest *Digest
}

// Access is the location of some content. Kind decides which fields are used.
type Access struct {
	// Type is the original text. Kind returns it in canonical spelling without a version.
	Type string
	// LocalReference is the digest of a layer or manifest of the component's own artifact (localBlob, localOciBlob). It
	// can also be several digests of layers, separated by commas, whose contents are joined.
	LocalReference string
	// ReferenceName is the content's name at its origin.
	ReferenceName string
	MediaType     string
	// ImageReference is the image of an ociArtifact, or the reference of a relativeOciReference.
	ImageReference string
	// Repository, Digest and SizeBytes identify an ociBlob.
	Repository string
	Digest     string
	SizeBytes  int64
	// HelmRepository, HelmChart ("name:version" or "name") and HelmVersion identify a chart (helm).
	HelmRepository string
	HelmChart      string
	HelmVersion    string
	// GlobalAccess is another location of a local blob. It is never used, because its owner can differ from the
	// component's signer.
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
	// Algorithm, MediaType, Value and Issuer describe the signature itself.
	Algorithm string
	MediaType string
	Value     string
	Issuer    string
}

// RepositoryContext is a repository that contained the component version. The last entry is the current repository.
type RepositoryContext struct {
	Type    string
	BaseURL string
	SubPath string
	// ComponentNameMapping is "urlPath", which is the default, or "sha256-digest".
	ComponentNameMapping string
}
