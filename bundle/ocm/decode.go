package ocm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"

	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

const (
	maxElements   = 2_000
	maxSignatures = 8
	// maxParts limits the number of digests in the localReference of one resource.
	maxParts = 64
)

// Decode parses a component descriptor with schema v2 or v3alpha1 in YAML or JSON. A string field with an unquoted
// number, such as version 1.10, keeps its text. Errors name the field.
//
// Source: ocm-spec, resources component-descriptor-ocm-v2-schema.yaml and -v3-schema.yaml.
func Decode(data []byte) (Descriptor, error) {
	if len(data) > MaxDescriptorBytes {
		return Descriptor{}, fmt.Errorf("component descriptor is larger than %d bytes", MaxDescriptorBytes)
	}
	descriptor, err := decode(data)
	if err != nil {
		return Descriptor{}, fmt.Errorf("component descriptor: %w", err)
	}
	return descriptor, nil
}

func decode(data []byte) (Descriptor, error) {
	documents, err := strict.ParseYAML(data, strict.Limits{Documents: 1})
	if err != nil {
		return Descriptor{}, err
	}
	if len(documents) == 0 {
		return Descriptor{}, errors.New("the document is empty")
	}
	document := documents[0]
	tree, err := nodeTree(document)
	if err != nil {
		return Descriptor{}, err
	}
	var kind struct {
		Meta struct {
			SchemaVersion string `yaml:"schemaVersion"`
		} `yaml:"meta"`
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	if err := document.Decode(&kind); err != nil {
		return Descriptor{}, plainError(err)
	}
	var d Descriptor
	switch {
	case kind.Meta.SchemaVersion == SchemaV2 && kind.APIVersion == "":
		d, err = decodeV2(document)
	case slices.Contains(v3Versions, kind.APIVersion) && kind.Kind == v3Kind && kind.Meta.SchemaVersion == "":
		d, err = decodeV3(document)
	case kind.APIVersion != "":
		err = fmt.Errorf("apiVersion: %s %s is not supported, must be %s %s", kind.APIVersion, kind.Kind, v3Versions[0],
			v3Kind)
	default:
		err = fmt.Errorf("meta.schemaVersion: %q is not supported, must be %q", kind.Meta.SchemaVersion, SchemaV2)
	}
	if err != nil {
		return Descriptor{}, err
	}
	d.document, err = marshal(tree)
	return d, err
}

const v3Kind = "ComponentVersion"

var v3Versions = []string{"ocm.software/v3alpha1", "ocm.gardener.cloud/v3alpha1"}

type (
	documentV2 struct {
		Component struct {
			Name                string              `yaml:"name"`
			Version             string              `yaml:"version"`
			Provider            yaml.Node           `yaml:"provider"`
			CreationTime        string              `yaml:"creationTime"`
			Labels              []labelDocument     `yaml:"labels"`
			RepositoryContexts  []yaml.Node         `yaml:"repositoryContexts"`
			Resources           []resourceDocument  `yaml:"resources"`
			Sources             []sourceDocument    `yaml:"sources"`
			ComponentReferences []referenceDocument `yaml:"componentReferences"`
		} `yaml:"component"`
		Signatures []signatureDocument `yaml:"signatures"`
	}
	documentV3 struct {
		Metadata struct {
			Name         string          `yaml:"name"`
			Version      string          `yaml:"version"`
			Labels       []labelDocument `yaml:"labels"`
			Provider     yaml.Node       `yaml:"provider"`
			CreationTime string          `yaml:"creationTime"`
		} `yaml:"metadata"`
		RepositoryContexts []yaml.Node `yaml:"repositoryContexts"`
		Spec               struct {
			Resources  []resourceDocument  `yaml:"resources"`
			Sources    []sourceDocument    `yaml:"sources"`
			References []referenceDocument `yaml:"references"`
		} `yaml:"spec"`
		Signatures []signatureDocument `yaml:"signatures"`
	}
	elementDocument struct {
		Name          string            `yaml:"name"`
		Version       string            `yaml:"version"`
		ExtraIdentity map[string]string `yaml:"extraIdentity"`
		Labels        []labelDocument   `yaml:"labels"`
	}
	resourceDocument struct {
		elementDocument `yaml:",inline"`
		Type            string          `yaml:"type"`
		Relation        string          `yaml:"relation"`
		Access          accessDocument  `yaml:"access"`
		Digest          *digestDocument `yaml:"digest"`
	}
	sourceDocument struct {
		elementDocument `yaml:",inline"`
		Type            string `yaml:"type"`
		// Decode keeps only the type of a source's access, because the publisher never fetches sources.
		Access struct {
			Type string `yaml:"type"`
		} `yaml:"access"`
	}
	referenceDocument struct {
		elementDocument `yaml:",inline"`
		ComponentName   string          `yaml:"componentName"`
		Digest          *digestDocument `yaml:"digest"`
	}
	digestDocument struct {
		HashAlgorithm          string `yaml:"hashAlgorithm"`
		NormalisationAlgorithm string `yaml:"normalisationAlgorithm"`
		Value                  string `yaml:"value"`
	}
	signatureDocument struct {
		Name      string         `yaml:"name"`
		Digest    digestDocument `yaml:"digest"`
		Signature struct {
			Algorithm string `yaml:"algorithm"`
			Value     string `yaml:"value"`
			MediaType string `yaml:"mediaType"`
			Issuer    string `yaml:"issuer"`
		} `yaml:"signature"`
	}
	accessDocument struct {
		Type           string          `yaml:"type"`
		LocalReference string          `yaml:"localReference"`
		ReferenceName  string          `yaml:"referenceName"`
		MediaType      string          `yaml:"mediaType"`
		ImageReference string          `yaml:"imageReference"`
		Reference      string          `yaml:"reference"`
		Ref            string          `yaml:"ref"`
		Digest         string          `yaml:"digest"`
		Size           int64           `yaml:"size"`
		HelmRepository string          `yaml:"helmRepository"`
		HelmChart      string          `yaml:"helmChart"`
		Version        string          `yaml:"version"`
		GlobalAccess   *accessDocument `yaml:"globalAccess"`
	}
)

func decodeV2(document *yaml.Node) (Descriptor, error) {
	var v2 documentV2
	if err := document.Decode(&v2); err != nil {
		return Descriptor{}, plainError(err)
	}
	c := v2.Component
	return newDescriptor("component.", "component.", "componentReferences", Descriptor{
		Schema: SchemaV2, Name: c.Name, Version: c.Version, CreationTime: c.CreationTime,
	},
		c.Provider, c.Labels, c.RepositoryContexts, c.Resources, c.Sources, c.ComponentReferences, v2.Signatures)
}

func decodeV3(document *yaml.Node) (Descriptor, error) {
	var v3 documentV3
	if err := document.Decode(&v3); err != nil {
		return Descriptor{}, plainError(err)
	}
	m := v3.Metadata
	return newDescriptor("metadata.", "spec.", "references", Descriptor{
		Schema: SchemaV3, Name: m.Name, Version: m.Version, CreationTime: m.CreationTime,
	},
		m.Provider, m.Labels, v3.RepositoryContexts, v3.Spec.Resources, v3.Spec.Sources, v3.Spec.References,
		v3.Signatures)
}

func newDescriptor(meta, spec, references string, d Descriptor, provider yaml.Node, labels []labelDocument,
	contexts []yaml.Node,
	resources []resourceDocument, sources []sourceDocument, refs []referenceDocument,
	signatures []signatureDocument) (Descriptor, error) {
	if err := CheckName(d.Name); err != nil {
		return d, fmt.Errorf("%sname: %w", meta, err)
	}
	if err := CheckVersion(d.Version); err != nil {
		return d, fmt.Errorf("%sversion: %w", meta, err)
	}
	var err error
	if d.Provider, err = parseProvider(&provider); err != nil {
		return d, fmt.Errorf("%sprovider: %w", meta, err)
	}
	if d.Labels, err = newLabels(labels); err != nil {
		return d, fmt.Errorf("%slabels%w", meta, err)
	}
	if d.Resources, err = convertAll(resources, maxElements, resourceDocument.resource); err != nil {
		return d, fmt.Errorf("%sresources%w", spec, err)
	}
	if err := checkDistinct(d.Resources, func(r Resource) Element { return r.Element }); err != nil {
		return d, fmt.Errorf("%sresources%w", spec, err)
	}
	if d.Sources, err = convertAll(sources, maxElements, sourceDocument.source); err != nil {
		return d, fmt.Errorf("%ssources%w", spec, err)
	}
	if err := checkDistinct(d.Sources, func(s Source) Element { return s.Element }); err != nil {
		return d, fmt.Errorf("%ssources%w", spec, err)
	}
	if d.References, err = convertAll(refs, maxElements, referenceDocument.reference); err != nil {
		return d, fmt.Errorf("%s%s%w", spec, references, err)
	}
	if err := checkDistinct(d.References, func(r Reference) Element { return r.Element }); err != nil {
		return d, fmt.Errorf("%s%s%w", spec, references, err)
	}
	if d.Signatures, err = convertAll(signatures, maxSignatures, signatureDocument.signature); err != nil {
		return d, fmt.Errorf("signatures%w", err)
	}
	d.RepositoryContexts = make([]RepositoryContext, 0, len(contexts))
	for i := range contexts {
		d.RepositoryContexts = append(d.RepositoryContexts, newRepositoryContext(&contexts[i]))
	}
	return d, nil
}

func convertAll[D, T any](documents []D, limit int, convert func(D) (T, error)) ([]T, error) {
	if len(documents) > limit {
		return nil, fmt.Errorf(": %d entries, must be at most %d", len(documents), limit)
	}
	out := make([]T, 0, len(documents))
	for i, d := range documents {
		t, err := convert(d)
		if err != nil {
			return nil, fmt.Errorf("[%d]%w", i, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func checkDistinct[T any](elements []T, element func(T) Element) error {
	seen := map[string]bool{}
	for i, t := range elements {
		e := element(t)
		identity := fmt.Sprintf("%q %q %q", e.Name, e.Version, e.ExtraIdentity)
		if seen[identity] {
			return fmt.Errorf("[%d].name: %q appears twice with the same version and identity", i, e.Name)
		}
		seen[identity] = true
	}
	return nil
}

func (e elementDocument) element() (Element, error) {
	labels, err := newLabels(e.Labels)
	if err != nil {
		return Element{}, fmt.Errorf(".labels%w", err)
	}
	return Element{Name: e.Name, Version: e.Version, ExtraIdentity: e.ExtraIdentity, Labels: labels}, nil
}

func (r resourceDocument) resource() (Resource, error) {
	if r.Name == "" || r.Access.Type == "" {
		return Resource{}, errors.New(": name and access.type are required")
	}
	e, err := r.element()
	if err != nil {
		return Resource{}, err
	}
	access, err := r.Access.access()
	if err != nil {
		return Resource{}, fmt.Errorf(".access%w", err)
	}
	return Resource{Element: e, Type: r.Type, Relation: r.Relation, Access: access, Digest: r.Digest.digest()}, nil
}

func (s sourceDocument) source() (Source, error) {
	if s.Name == "" {
		return Source{}, errors.New(".name is required")
	}
	e, err := s.element()
	if err != nil {
		return Source{}, err
	}
	return Source{Element: e, Type: s.Type, Access: Access{Type: s.Access.Type}}, nil
}

func (r referenceDocument) reference() (Reference, error) {
	if r.Name == "" {
		return Reference{}, errors.New(".name is required")
	}
	e, err := r.element()
	if err != nil {
		return Reference{}, err
	}
	if err := CheckName(r.ComponentName); err != nil {
		return Reference{}, fmt.Errorf(".componentName: %w", err)
	}
	if err := CheckVersion(r.Version); err != nil {
		return Reference{}, fmt.Errorf(".version: %w", err)
	}
	return Reference{Element: e, Component: r.ComponentName, Digest: r.Digest.digest()}, nil
}

func (d *digestDocument) digest() *Digest {
	if d == nil {
		return nil
	}
	return &Digest{HashAlgorithm: d.HashAlgorithm, NormalisationAlgorithm: d.NormalisationAlgorithm, Value: d.Value}
}

func (s signatureDocument) signature() (Signature, error) {
	if s.Name == "" {
		return Signature{}, errors.New(".name is required")
	}
	return Signature{
		Name: s.Name, Digest: *s.Digest.digest(),
		Algorithm: s.Signature.Algorithm, MediaType: s.Signature.MediaType, Value: s.Signature.Value,
		Issuer: s.Signature.Issuer,
	}, nil
}

func (a accessDocument) access() (Access, error) {
	access := Access{
		Type: a.Type, LocalReference: a.LocalReference, ReferenceName: a.ReferenceName, MediaType: a.MediaType,
		ImageReference: a.ImageReference,
		Repository:     a.Ref, Digest: a.Digest, SizeBytes: a.Size, HelmRepository: a.HelmRepository,
		HelmChart: a.HelmChart, HelmVersion: a.Version,
	}
	switch access.Kind() {
	case AccessLocalBlob:
		if access.LocalReference == "" {
			// Old component descriptors contain a localOciBlob's reference in the field digest.
			access.LocalReference, access.Digest = a.Digest, ""
		}
		var err error
		if access.LocalReference, err = localReference(access.LocalReference); err != nil {
			return access, fmt.Errorf(".localReference: %w", err)
		}
	case AccessRelativeOCI:
		access.ImageReference = a.Reference
	}
	if a.GlobalAccess != nil {
		access.GlobalAccess = &Access{Type: a.GlobalAccess.Type, ImageReference: a.GlobalAccess.ImageReference}
	}
	return access, nil
}

// localReference returns the digests in a localReference, separated by commas. It converts a digest that has the format
// of a file name, "sha256.<hex>", as in component archives.
func localReference(reference string) (string, error) {
	parts := strings.Split(reference, ",")
	if len(parts) > maxParts {
		return "", fmt.Errorf("the reference contains %d digests, must be at most %d", len(parts), maxParts)
	}
	for i, part := range parts {
		part = strings.TrimSpace(part)
		if !strings.Contains(part, ":") {
			part = strings.Replace(part, ".", ":", 1)
		}
		if err := digest.Digest(part).Validate(); err != nil {
			return "", fmt.Errorf("%q is not a digest", reference)
		}
		parts[i] = part
	}
	return strings.Join(parts, ","), nil
}

func newRepositoryContext(node *yaml.Node) RepositoryContext {
	var document struct {
		Type                 string `yaml:"type"`
		BaseURL              string `yaml:"baseUrl"`
		SubPath              string `yaml:"subPath"`
		ComponentNameMapping string `yaml:"componentNameMapping"`
	}
	_ = node.Decode(&document) // a repository context in an unknown format is ignored
	if document.ComponentNameMapping == "" {
		document.ComponentNameMapping = "urlPath"
	}
	return RepositoryContext{
		Type: document.Type, BaseURL: document.BaseURL, SubPath: document.SubPath,
		ComponentNameMapping: document.ComponentNameMapping,
	}
}

func plainError(err error) error {
	var list *yaml.TypeError
	if errors.As(err, &list) {
		return errors.New(strings.Join(list.Errors, "; "))
	}
	return err
}
