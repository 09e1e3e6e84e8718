package ocm

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"

	"github.com/gowebpki/jcs"
)

// The normalisations of descriptors. V3 and V4 differ in name only.
const (
	NormalisationV1 = "jsonNormalisation/v1"
	NormalisationV2 = "jsonNormalisation/v2"
	NormalisationV3 = "jsonNormalisation/v3"
	NormalisationV4 = "jsonNormalisation/v4alpha1"
)

// Normalise gives the bytes that a signature of the descriptor covers: everything but access and what is not meant to be
// signed, in one form.
//
// It follows the official tools where they differ from the specification's text: the labels of references are kept whole, and
// creationTime counts.
//
// Source: ocm-spec, doc/04-extensions/04-algorithms/component-descriptor-normalization-algorithms.md; RFC 8785.
func Normalise(d Descriptor, algorithm string) ([]byte, error) {
	switch algorithm {
	case NormalisationV1:
		return normaliseV1(d)
	case NormalisationV2:
		d.Resources = withVersions(d.Resources)
	case NormalisationV3, NormalisationV4:
	default:
		return nil, fmt.Errorf("normalisation %q is not supported", algorithm)
	}
	component := map[string]any{
		"name": d.Name, "version": d.Version, "provider": providerOfNorm(d.Provider),
		"resources": elementsDocument(d.Resources, normalResource), "sources": elementsDocument(d.Sources, normalSource),
		"componentReferences": elementsDocument(d.References, normalReference),
	}
	if d.CreationTime != "" {
		component["creationTime"] = d.CreationTime
	}
	if labels := signed(d.Labels); len(labels) > 0 {
		component["labels"] = labels
	}
	data, err := json.Marshal(map[string]any{"component": component})
	if err != nil {
		return nil, err
	}
	return jcs.Transform(data)
}

// DigestOf gives the digest of the normalised descriptor in hexadecimal. The hash algorithm is written as in descriptors:
// "SHA-256" or "SHA-512".
func DigestOf(d Descriptor, normalisation, hashAlgorithm string) (string, error) {
	hasher, err := hasherOf(hashAlgorithm)
	if err != nil {
		return "", err
	}
	data, err := Normalise(d, normalisation)
	if err != nil {
		return "", err
	}
	hasher.Write(data)
	return hex.EncodeToString(hasher.Sum(nil)), nil
}

func hasherOf(algorithm string) (hash.Hash, error) {
	switch algorithm {
	case "SHA-256", "sha256":
		return sha256.New(), nil
	case "SHA-512", "sha512":
		return sha512.New(), nil
	}
	return nil, fmt.Errorf("hash algorithm %q is not supported", algorithm)
}

// withVersions gives the version as extra identity to resources that nothing else tells apart, as version 2 of the
// normalisation does it: in place and one by one, so that the last of a group may stay as it is.
func withVersions(resources []Resource) []Resource {
	defaulted := slices.Clone(resources)
	for i := range defaulted {
		for j := range defaulted {
			if i != j && defaulted[i].Name == defaulted[j].Name && maps.Equal(defaulted[i].ExtraIdentity, defaulted[j].ExtraIdentity) {
				identity := maps.Clone(defaulted[i].ExtraIdentity)
				if identity == nil {
					identity = map[string]string{}
				}
				identity["version"] = defaulted[i].Version
				defaulted[i].ExtraIdentity = identity
				break
			}
		}
	}
	return defaulted
}

func providerOfNorm(p Provider) map[string]any {
	m := map[string]any{"name": p.Name}
	if labels := signed(p.Labels); len(labels) > 0 {
		m["labels"] = labels
	}
	return m
}

// signed are the labels that a signature covers.
func signed(labels []Label) []any {
	return labelMaps(slices.DeleteFunc(slices.Clone(labels), func(l Label) bool { return !l.Signing }))
}

func normalElement(e Element) map[string]any {
	m := map[string]any{"name": e.Name, "version": e.Version}
	if len(e.ExtraIdentity) > 0 {
		m["extraIdentity"] = e.ExtraIdentity
	}
	if labels := signed(e.Labels); len(labels) > 0 {
		m["labels"] = labels
	}
	return m
}

func normalResource(r Resource) map[string]any {
	m := normalElement(r.Element)
	m["type"], m["relation"] = r.Type, r.Relation
	if r.Digest != nil && r.Access.Kind() != AccessNone {
		m["digest"] = digestMap(*r.Digest)
	}
	return m
}

func normalSource(s Source) map[string]any {
	m := normalElement(s.Element)
	m["type"] = s.Type
	return m
}

func normalReference(r Reference) map[string]any {
	m := normalElement(r.Element)
	delete(m, "labels")
	if len(r.Labels) > 0 {
		m["labels"] = labelMaps(r.Labels)
	}
	m["componentName"] = r.Component
	if r.Digest != nil {
		m["digest"] = digestMap(*r.Digest)
	}
	return m
}

// normaliseV1 gives version 1: without sources, with null for an absent extra identity, and every object as a list of its
// fields.
func normaliseV1(d Descriptor) ([]byte, error) {
	d.Resources = withVersions(d.Resources)
	component := map[string]any{
		"name": d.Name, "version": d.Version,
		"resources": elementsDocument(d.Resources, func(r Resource) map[string]any { return identified(normalResource(r)) }),
		"componentReferences": elementsDocument(d.References, func(r Reference) map[string]any {
			m := normalReference(r)
			delete(m, "labels")
			if labels := signed(r.Labels); len(labels) > 0 {
				m["labels"] = labels
			}
			return identified(m)
		}),
	}
	if d.CreationTime != "" {
		component["creationTime"] = d.CreationTime
	}
	if labels := signed(d.Labels); len(labels) > 0 {
		component["labels"] = labels
	}
	component["provider"] = d.Provider.Name
	if len(signed(d.Provider.Labels)) > 0 {
		component["provider"] = providerOfNorm(d.Provider)
	}
	return entries(map[string]any{"component": component, "meta": map[string]any{"schemaVersion": SchemaV2}})
}

func identified(m map[string]any) map[string]any {
	if _, ok := m["extraIdentity"]; !ok {
		m["extraIdentity"] = nil
	}
	return m
}

// entries encodes a tree with every object as a list of objects of one field, sorted by name.
func entries(tree any) ([]byte, error) {
	data, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out) // escapes <, > and &, as the official tool does
	if err := encoder.Encode(listed(plain)); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

func listed(tree any) any {
	switch t := tree.(type) {
	case map[string]any:
		list := make([]any, 0, len(t))
		for _, key := range slices.Sorted(maps.Keys(t)) {
			list = append(list, map[string]any{key: listed(t[key])})
		}
		return list
	case []any:
		list := make([]any, 0, len(t))
		for _, item := range t {
			list = append(list, listed(item))
		}
		return list
	}
	return tree
}
