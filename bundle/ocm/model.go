package ocm

import "encoding/json"

// Descriptor is a component version, whichever schema it was written in.
type Descriptor struct {
	// Schema is the schema it was read from: SchemaV2 or SchemaV3.
	Schema   string
	Name     string
	Version  string
	Provider Provider
	// CreationTime is as it was written, empty when absent: an RFC 3339 time, if the descriptor is to be normalized.
	CreationTime       string
	Labels             []Label
	RepositoryContexts []RepositoryContext
	Resources          []Resource
	Sources            []Source
	References         []Reference
	Signatures         []Signature

	document []byte // as it was read, in JSON
}

// The schemas that are read.
const (
	SchemaV2 = "v2"
	SchemaV3 = "v3alpha1"
)

// Provider is who the component comes from.
type Provider struct {
	Name   string
	Labels []Label
}

// Label is a named value of any form. Only a label with Signing is covered by signatures.
type Label struct {
	Name string
	// Value is JSON with its numbers as they were written, nil when absent.
	Value   json.RawMessage
	Version string
	Signing bool
	// Merge says how the value is merged when a component is copied, nil when nothing is said.
	Merge *Merge
}

// Merge names how the values of a label are merged.
type Merge struct {
	Algorithm string
	// Config is JSON of the algorithm's own form, nil when absent.
	Config json.RawMessage
}

// Element is what resources, sources and references have in common. Name and ExtraIdentity are its identity, with
// Version where they do not tell it apart.
type Element struct {
	Name          string
	Version       string
	ExtraIdentity map[string]string
	Labels        []Label
}

// Resource is one thing a component version is made of.
type Resource struct {
	Element
	Type string
	// Relation is "local" or "external".
	Relation string
	Access   Access
	// Digest is that of the content, nil when there is none.
	Digest *Digest
}

// Source is what a component was built from.
type Source struct {
	Element
	Type   string
	Access Access
}

// Reference names another component version that this one is made of.
type Reference struct {
	Element
	Component string
	// Digest is that of the normalized descriptor, nil when there is none.
	Digest *Digest
}

// Access says where content is. Which fields count depends on Kind.
type Access struct {
	// Type is as it was written; Kind is without version and in one spelling.
	Type string
	// LocalReference is the digest of a layer or manifest of the component's own artifact, or several of layers, separated
	// by commas, whose contents are joined (localBlob, localOciBlob).
	LocalReference string
	// ReferenceName is how the content was called where it came from.
	ReferenceName string
	MediaType     string
	// ImageReference is that of an ociArtifact, or the reference of a relativeOciReference.
	ImageReference string
	// Repository, Digest and SizeBytes name an ociBlob.
	Repository string
	Digest     string
	SizeBytes  int64
	// HelmRepository, HelmChart ("name:version" or "name") and HelmVersion name a chart (helm).
	HelmRepository string
	HelmChart      string
	HelmVersion    string
	// GlobalAccess is another way to a local blob. It is never used: who can change it is not who signed the component.
	GlobalAccess *Access
}

// Digest is a digest as the descriptor has it.
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
	// Algorithm, MediaType, Value and Issuer are those of the signature itself.
	Algorithm string
	MediaType string
	Value     string
	Issuer    string
}

// RepositoryContext is a repository that the component version was in; the last is the one it is in now.
type RepositoryContext struct {
	Type    string
	BaseURL string
	SubPath string
	// ComponentNameMapping is "urlPath", also when absent, or "sha256-digest".
	ComponentNameMapping string
}
