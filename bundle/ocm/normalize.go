package ocm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gowebpki/jcs"
)

// Normalization algorithms for component descriptors. V3 and V4 have the same result.
const (
	NormalisationV1 = "jsonNormalisation/v1"
	NormalisationV2 = "jsonNormalisation/v2"
	NormalisationV3 = "jsonNormalisation/v3"
	NormalisationV4 = "jsonNormalisation/v4alpha1"
)

// Normalize returns the bytes that a signature of the descriptor covers: all fields except resources' access and
// unsigned labels. Like the official OCM tools, it keeps all labels on references and includes creationTime.
//
// Source: ocm-spec, doc/04-extensions/04-algorithms/component-descriptor-normalization-algorithms.md; RFC 8785.
func Normalize(d Descriptor, algorithm string) ([]byte, error) {
	if !slices.Contains([]string{NormalisationV1, NormalisationV2, NormalisationV3, NormalisationV4}, algorithm) {
		return nil, fmt.Errorf("normalization %q is not supported", algorithm)
	}
	created, err := formatCreationTime(d.CreationTime)
	if err != nil {
		return nil, fmt.Errorf("component descriptor: creationTime: %w", err)
	}
	d.CreationTime = created
	if algorithm == NormalisationV1 || algorithm == NormalisationV2 {
		d.Resources = withVersions(d.Resources)
	}
	if algorithm == NormalisationV1 {
		return normaliseV1(d)
	}
	component := normalMeta(d)
	component["provider"] = normalProvider(d.Provider)
	component["resources"] = convertList(d.Resources, normalResource)
	component["sources"] = convertList(d.Sources, normalSource)
	component["componentReferences"] = convertList(d.References, normalReference)
	data, err := json.Marshal(map[string]any{"component": component})
	if err != nil {
		return nil, err
	}
	return jcs.Transform(data)
}

// formatCreationTime formats a creation time as the official OCM tool does, in UTC and rounded to seconds.
func formatCreationTime(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "", fmt.Errorf("%q is not an RFC 3339 time such as 2026-01-31T12:00:00Z", text)
	}
	return t.UTC().Round(time.Second).Format(time.RFC3339), nil
}

// DigestOf returns the digest of the normalized descriptor in hexadecimal. The hash algorithm must be "SHA-256" or
// "SHA-512".
func DigestOf(d Descriptor, normalisation, hashAlgorithm string) (string, error) {
	data, err := Normalize(d, normalisation)
	if err != nil {
		return "", err
	}
	return hexHash(hashAlgorithm, data)
}

// withVersions makes resources with the same name and extra identity distinguishable. It adds the version to the extra
// identity of each of these resources except the last one. Normalization versions 1 and 2 require this.
func withVersions(resources []Resource) []Resource {
	alike := map[string]int{}
	for _, r := range resources {
		alike[identityText(r.Element)]++
	}
	defaulted := slices.Clone(resources)
	for i, r := range defaulted {
		identity := identityText(r.Element)
		if alike[identity] < 2 {
			continue
		}
		alike[identity]--
		extra := map[string]string{"version": r.Version}
		for key, value := range r.ExtraIdentity {
			if key != "version" {
				extra[key] = value
			}
		}
		defaulted[i].ExtraIdentity = extra
		alike[identityText(defaulted[i].Element)]++
	}
	return defaulted
}

func identityText(e Element) string { return fmt.Sprintf("%q %q", e.Name, e.ExtraIdentity) }

func normalMeta(d Descriptor) map[string]any {
	m := map[string]any{"name": d.Name, "version": d.Version}
	if d.CreationTime != "" {
		m["creationTime"] = d.CreationTime
	}
	if labels := signedLabels(d.Labels); len(labels) > 0 {
		m["labels"] = labels
	}
	return m
}

func normalProvider(p Provider) map[string]any {
	m := map[string]any{"name": p.Name}
	if labels := signedLabels(p.Labels); len(labels) > 0 {
		m["labels"] = labels
	}
	return m
}

// signedLabels returns the labels that a signature covers, each without the field "merge", which no signature covers.
func signedLabels(labels []Label) []any {
	var list []any
	for _, l := range labels {
		if l.Signing {
			l.Merge = nil
			list = append(list, labelMap(l))
		}
	}
	return list
}

func normalElement(e Element) map[string]any {
	m := elementMap(e)
	delete(m, "labels")
	if labels := signedLabels(e.Labels); len(labels) > 0 {
		m["labels"] = labels
	}
	return m
}

func normalResource(r Resource) map[string]any {
	m := normalElement(r.Element)
	m["type"] = r.Type
	if r.Relation != "" {
		m["relation"] = r.Relation
	}
	// The official OCM tool ignores the digest of a resource with the access type "none", but not with "none/v1".
	if r.Digest != nil && r.Access.Type != "none" && r.Access.Type != "None" {
		m["digest"] = digestMap(*r.Digest)
	}
	return m
}

func normalSource(s Source) map[string]any {
	m := normalElement(s.Element)
	m["type"] = s.Type
	return m
}

// The official OCM tool keeps all labels on references. Its rule that removes unsigned labels uses a wrong field name,
// so it does not match references.
func normalReference(r Reference) map[string]any { return referenceMap(r) }

func normalReferenceV1(r Reference) map[string]any {
	m := referenceMap(r)
	delete(m, "labels")
	if labels := signedLabels(r.Labels); len(labels) > 0 {
		m["labels"] = labels
	}
	return m
}

// normaliseV1 normalizes a descriptor with version 1, which encodes each object as a list of its fields. The result
// depends on the schema of the decoded document.
func normaliseV1(d Descriptor) ([]byte, error) {
	meta := normalMeta(d)
	if d.Schema == SchemaV3 {
		// Normalization version 1 includes unsigned labels on the provider.
		meta["provider"] = providerMap(d.Provider)
		spec := map[string]any{}
		for field, list := range map[string][]any{
			"resources": convertList(d.Resources, normalResource), "sources": convertList(d.Sources, normalSource),
			"references": convertList(d.References, normalReferenceV1),
		} {
			if len(list) > 0 {
				spec[field] = list
			}
		}
		return encodeEntries(map[string]any{"apiVersion": v3Versions[0], "kind": v3Kind, "metadata": meta, "spec": spec})
	}
	meta["resources"] = convertList(d.Resources,
		func(r Resource) map[string]any { return withIdentity(normalResource(r)) })
	meta["componentReferences"] = convertList(d.References, func(r Reference) map[string]any {
		return withIdentity(normalReferenceV1(r))
	})
	meta["provider"] = d.Provider.Name
	if len(d.Provider.Labels) > 0 {
		meta["provider"] = normalProvider(d.Provider)
	}
	return encodeEntries(map[string]any{"component": meta, "meta": map[string]any{"schemaVersion": SchemaV2}})
}

func withIdentity(m map[string]any) map[string]any {
	if _, ok := m["extraIdentity"]; !ok {
		m["extraIdentity"] = nil
	}
	return m
}

// encodeEntries encodes a tree as JSON. It encodes every object as a list of objects with one field each, sorted by
// field name.
func encodeEntries(tree any) ([]byte, error) {
	data, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out) // escapes <, > and &, as the official OCM tool does
	if err := encoder.Encode(toEntryList(plain)); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

func toEntryList(tree any) any {
	switch t := tree.(type) {
	case map[string]any:
		list := make([]any, 0, len(t))
		for _, key := range slices.Sorted(maps.Keys(t)) {
			list = append(list, map[string]any{key: toEntryList(t[key])})
		}
		return list
	case []any:
		list := make([]any, 0, len(t))
		for _, item := range t {
			list = append(list, toEntryList(item))
		}
		return list
	}
	return tree
}
