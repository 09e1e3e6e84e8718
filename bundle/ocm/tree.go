package ocm

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v3"
)

// treeOf gives a YAML tree as JSON has it. Timestamps stay the text they are, as in the official tool.
func treeOf(n *yaml.Node) (any, error) {
	switch n.Kind {
	case 0:
		return nil, nil
	case yaml.DocumentNode:
		return treeOf(n.Content[0])
	case yaml.MappingNode:
		object := make(map[string]any, len(n.Content)/2)
		for i := 0; i < len(n.Content); i += 2 {
			value, err := treeOf(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			object[n.Content[i].Value] = value
		}
		return object, nil
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			value, err := treeOf(item)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	case yaml.ScalarNode:
		return scalarOf(n)
	}
	return nil, fmt.Errorf("line %d: is neither mapping, list nor scalar", n.Line)
}

func scalarOf(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value), nil // as it was written: 1.10 is not 1.1 to whoever reads the document
		}
		if strings.Trim(n.Value, "0123456789") == "" {
			return n.Value, nil // digits with zeros before them count nothing
		}
		var number float64
		err := n.Decode(&number)
		return number, err
	}
	return n.Value, nil
}

// Document gives the descriptor as JSON: as it was read, with all that this package does not know, or made of the model.
func (d Descriptor) Document() ([]byte, error) {
	if d.document != nil {
		return d.document, nil
	}
	component := map[string]any{
		"name": d.Name, "version": d.Version, "provider": providerDocument(d.Provider), "repositoryContexts": []any{},
		"resources": elementsDocument(d.Resources, resourceMap), "sources": elementsDocument(d.Sources, sourceMap),
		"componentReferences": elementsDocument(d.References, referenceMap),
	}
	if d.CreationTime != "" {
		component["creationTime"] = d.CreationTime
	}
	if len(d.Labels) > 0 {
		component["labels"] = labelMaps(d.Labels)
	}
	document := map[string]any{"meta": map[string]any{"schemaVersion": SchemaV2}, "component": component}
	if len(d.Signatures) > 0 {
		document["signatures"] = elementsDocument(d.Signatures, signatureMap)
	}
	return json.Marshal(document)
}

func elementsDocument[T any](elements []T, convert func(T) map[string]any) []any {
	list := make([]any, 0, len(elements))
	for _, e := range elements {
		list = append(list, convert(e))
	}
	return list
}

// providerDocument is a plain name, or, with labels, an object encoded as a string.
func providerDocument(p Provider) string {
	if len(p.Labels) == 0 {
		return p.Name
	}
	text, err := json.Marshal(map[string]any{"name": p.Name, "labels": labelMaps(p.Labels)})
	if err != nil {
		panic(fmt.Sprintf("a provider always encodes: %v", err)) // its values were JSON before
	}
	return string(text)
}

func labelMaps(labels []Label) []any {
	return elementsDocument(labels, func(l Label) map[string]any {
		m := map[string]any{"name": l.Name, "value": l.Value}
		if l.Version != "" {
			m["version"] = l.Version
		}
		if l.Signing {
			m["signing"] = true
		}
		return m
	})
}

func elementMap(e Element) map[string]any {
	m := map[string]any{"name": e.Name, "version": e.Version}
	if len(e.ExtraIdentity) > 0 {
		m["extraIdentity"] = maps.Clone(e.ExtraIdentity)
	}
	if len(e.Labels) > 0 {
		m["labels"] = labelMaps(e.Labels)
	}
	return m
}

func digestMap(d Digest) map[string]any {
	return map[string]any{"hashAlgorithm": d.HashAlgorithm, "normalisationAlgorithm": d.NormalisationAlgorithm, "value": d.Value}
}

func resourceMap(r Resource) map[string]any {
	m := elementMap(r.Element)
	m["type"], m["relation"], m["access"] = r.Type, r.Relation, accessMap(r.Access)
	if r.Digest != nil {
		m["digest"] = digestMap(*r.Digest)
	}
	return m
}

func sourceMap(s Source) map[string]any {
	m := elementMap(s.Element)
	m["type"], m["access"] = s.Type, map[string]any{"type": s.Access.Type}
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

func accessMap(a Access) map[string]any {
	m := map[string]any{"type": a.Type}
	image := "imageReference"
	if a.Kind() == AccessRelativeOCI {
		image = "reference"
	}
	for field, value := range map[string]string{
		"localReference": a.LocalReference, "referenceName": a.ReferenceName, "mediaType": a.MediaType, image: a.ImageReference,
		"ref": a.Repository, "digest": a.Digest, "helmRepository": a.HelmRepository, "helmChart": a.HelmChart, "version": a.HelmVersion,
	} {
		if value != "" {
			m[field] = value
		}
	}
	if a.SizeBytes != 0 {
		m["size"] = a.SizeBytes
	}
	return m
}
