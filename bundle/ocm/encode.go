package ocm

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Document returns the descriptor as JSON. For a decoded descriptor, this is the document that Decode parsed, even if
// the caller changed fields of the Descriptor.
func (d Descriptor) Document() ([]byte, error) {
	if d.document != nil {
		return d.document, nil
	}
	provider, err := providerText(d.Provider)
	if err != nil {
		return nil, fmt.Errorf("component.provider: %w", err)
	}
	component := map[string]any{
		"name": d.Name, "version": d.Version, "provider": provider,
		"repositoryContexts": convertList(d.RepositoryContexts, contextMap),
		"resources":          convertList(d.Resources, resourceMap), "sources": convertList(d.Sources, sourceMap),
		"componentReferences": convertList(d.References, referenceMap),
	}
	if d.CreationTime != "" {
		component["creationTime"] = d.CreationTime
	}
	if len(d.Labels) > 0 {
		component["labels"] = convertList(d.Labels, labelMap)
	}
	document := map[string]any{"meta": map[string]any{"schemaVersion": SchemaV2}, "component": component}
	if len(d.Signatures) > 0 {
		document["signatures"] = convertList(d.Signatures, signatureMap)
	}
	return marshal(document)
}

// marshal encodes a tree as JSON. It escapes the characters that JSON allows but YAML forbids, so YAML parsers can read
// the result.
func marshal(tree any) ([]byte, error) {
	data, err := json.Marshal(tree)
	if err != nil || !bytes.ContainsFunc(data, isUnprintable) {
		return data, err
	}
	var out bytes.Buffer
	for _, r := range string(data) {
		if isUnprintable(r) {
			fmt.Fprintf(&out, `\u%04x`, r) // JSON contains these characters only inside strings
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes(), nil
}

// isUnprintable reports whether YAML forbids a character that encoding/json does not escape (YAML 1.2, section 5.1).
func isUnprintable(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff
}

func convertList[T any](elements []T, convert func(T) map[string]any) []any {
	list := make([]any, 0, len(elements))
	for _, e := range elements {
		list = append(list, convert(e))
	}
	return list
}

func providerText(p Provider) (string, error) {
	if len(p.Labels) == 0 {
		return p.Name, nil
	}
	text, err := json.Marshal(providerMap(p))
	return string(text), err
}

func providerMap(p Provider) map[string]any {
	m := map[string]any{"name": p.Name}
	if len(p.Labels) > 0 {
		m["labels"] = convertList(p.Labels, labelMap)
	}
	return m
}

func labelMap(l Label) map[string]any {
	m := map[string]any{"name": l.Name}
	if l.Value != nil {
		m["value"] = l.Value
	}
	if l.Version != "" {
		m["version"] = l.Version
	}
	if l.Signing {
		m["signing"] = true
	}
	if l.Merge != nil {
		merge := map[string]any{"algorithm": l.Merge.Algorithm}
		if l.Merge.Config != nil {
			merge["config"] = l.Merge.Config
		}
		m["merge"] = merge
	}
	return m
}

func elementMap(e Element) map[string]any {
	m := map[string]any{"name": e.Name, "version": e.Version}
	if len(e.ExtraIdentity) > 0 {
		m["extraIdentity"] = e.ExtraIdentity
	}
	if len(e.Labels) > 0 {
		m["labels"] = convertList(e.Labels, labelMap)
	}
	return m
}

func digestMap(d Digest) map[string]any {
	return map[string]any{
		"hashAlgorithm": d.HashAlgorithm, "normalisationAlgorithm": d.NormalisationAlgorithm, "value": d.Value,
	}
}

func resourceMap(r Resource) map[string]any {
	m := elementMap(r.Element)
	m["type"], m["access"] = r.Type, accessMap(r.Access)
	if r.Relation != "" {
		m["relation"] = r.Relation
	}
	if r.Digest != nil {
		m["digest"] = digestMap(*r.Digest)
	}
	return m
}

func sourceMap(s Source) map[string]any {
	m := elementMap(s.Element)
	m["type"], m["access"] = s.Type, accessMap(s.Access)
	return m
}

func referenceMap(r Reference) map[string]any {
	m := elementMap(r.Element)
	m["componentName"] = r.Component
	if r.Digest != nil {
		m["digest"] = digestMap(*r.Digest)
	}
	return m
}

func signatureMap(s Signature) map[string]any {
	signature := map[string]any{"algorithm": s.Algorithm, "mediaType": s.MediaType, "value": s.Value}
	if s.Issuer != "" {
		signature["issuer"] = s.Issuer
	}
	return map[string]any{"name": s.Name, "digest": digestMap(s.Digest), "signature": signature}
}

func contextMap(c RepositoryContext) map[string]any {
	m := map[string]any{"type": c.Type, "baseUrl": c.BaseURL, "componentNameMapping": c.ComponentNameMapping}
	if c.SubPath != "" {
		m["subPath"] = c.SubPath
	}
	return m
}

func accessMap(a Access) map[string]any {
	m := map[string]any{"type": a.Type}
	image := "imageReference"
	if a.Kind() == AccessRelativeOCI {
		image = "reference"
	}
	for field, value := range map[string]string{
		"localReference": a.LocalReference, "referenceName": a.ReferenceName, "mediaType": a.MediaType,
		image: a.ImageReference,
		"ref": a.Repository, "digest": a.Digest, "helmRepository": a.HelmRepository, "helmChart": a.HelmChart,
		"version": a.HelmVersion,
	} {
		if value != "" {
			m[field] = value
		}
	}
	if a.SizeBytes != 0 {
		m["size"] = a.SizeBytes
	}
	if a.GlobalAccess != nil {
		m["globalAccess"] = accessMap(*a.GlobalAccess)
	}
	return m
}
