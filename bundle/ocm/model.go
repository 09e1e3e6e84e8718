package ocm

import "encoding/json"

// Descriptor describes one component version, in schema v2 or v3.
type Descriptor struct {
	// Schema is the decoded document's schema: SchemaV2 or SchemaV3.
	Schema   string
	Name     string
	Version  string
	Provider Provider
	// CreationTime is the field creationTime as written in the document, or empty.
	CreationTime       string
	Labels             []Label
	RepositoryContexts []RepositoryContext
	Resources          []Resource
	Sources            []Source
	References         []Reference
	Signatures         []Signature

	document []byte // the document that Decode parsed, converted to JSON
}

// Values for Descriptor.Schema.
const (
	SchemaV2 = "v2"
	SchemaV3 = "v3alpha1"
)

// Provider is the organization that provides the component.
type Provider struct {
	Name   string
	Labels []Label
}

// Label is a named value. A signature covers the label only if Signing is true.
type Label struct {
	Name string
	// Value is the label's value as JSON, or nil. Numbers are not reformatted.
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

// Element contains the fields that resources, sources and references have in common. Name and ExtraIdentity identify an
// element in its list. If several elements have the same Name and ExtraIdentity, Version is part of the identity, too.
type Element struct {
	Name          string
	Version       string
	ExtraIdentity map[string]string
	Labels        []Label
}

// Resource is a resource in a component version.
type Resource struct {
	Element
	Type string
	// Relation is "local" if the component's provider built the resource, and otherwise "external".
	Relation string
	Access   Access
	// Digest is the digest of the resource's content, or nil.
	Digest *Digest
}

// Source describes the source code that the component was built from.
type Source struct {
	Element
	Type   string
	Access Access
}

// Reference identifies another component version that is part of this component version.
type Reference struct {
	Element
	Component string
	// Digest is the digest of the referenced component version's normalized descriptor, or nil.
	Digest *Digest
}

// Access locates a resource's content. The fields that apply depend on Type.
type Access struct {
	// Type is the access type as written in the document. Kind returns its canonical name without the version.
	Type string
	// LocalReference is the digest of a layer or manifest in the component's own OCI artifact. It can contain several
	// layer digests, separated by commas. The layers must then be joined.
	LocalReference string
	// ReferenceName is the name that the content had before it was copied into the component, such as an image
	// reference.
	ReferenceName string
	MediaType     string
	// ImageReference is the image reference in an ociArtifact or relativeOciReference.
	ImageReference string
	// Repository, Digest and SizeBytes identify an ociBlob.
	Repository string
	Digest     string
	SizeBytes  int64
	// HelmRepository, HelmChart ("name:version" or "name") and HelmVersion identify a Helm chart.
	HelmRepository string
	HelmChart      string
	HelmVersion    string
	// GlobalAccess is another location for a local blob, outside the component. The package ignores it.
	GlobalAccess *Access
}

// Digest is the digest of a resource's content or of a component descriptor.
type Digest struct {
	HashAlgorithm          string
	NormalisationAlgorithm string
	// Value is the digest in hexadecimal.
	Value string
}

// Signature is one signature on a component version.
type Signature struct {
	Name   string
	Digest Digest
	// Algorithm is the signature algorithm, MediaType is the encoding of Value, and Value is the signature. Issuer is
	// the name of the signer.
	Algorithm string
	MediaType string
	Value     string
	Issuer    string
}

// RepositoryContext is an OCI repository that contains or contained the component version. The last context in a
// descriptor is the current repository.
type RepositoryContext struct {
	Type    string
	BaseURL string
	SubPath string
	// ComponentNameMapping defines how a component name becomes a repository path: "urlPath" (the default) or
	// "sha256-digest".
	ComponentNameMapping string
}
