package inventory

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/distribution/reference"
)

// CycloneDX returns the inventory as a CycloneDX bill of materials. Its components are the fleet, the module versions
// and their images. Each component contains the number of runtimes that run it.
func (f Fleet) CycloneDX(name string, now time.Time) *cyclonedx.BOM {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: now.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{BOMRef: "fleet", Type: cyclonedx.ComponentTypePlatform, Name: name},
	}
	var components []cyclonedx.Component
	var modules []string
	images := map[string][]string{}
	add := func(m Module, runtimes int) (ref string) {
		ref = "module:" + m.Name + "@" + m.Version
		if _, known := images[ref]; !known {
			images[ref] = []string{}
			modules = append(modules, ref)
			components = append(components, cyclonedx.Component{
				BOMRef: ref, Type: cyclonedx.ComponentTypeApplication, Name: m.Name, Version: m.Version,
				Properties: runtimeCount(runtimes),
			})
		}
		return ref
	}
	for _, image := range f.Images {
		c := containerComponent(image.Reference)
		c.Properties = runtimeCount(image.Runtimes())
		for _, u := range image.Uses {
			ref := add(u.Module, len(u.Runtimes))
			images[ref] = append(images[ref], c.BOMRef)
		}
		components = append(components, c)
	}
	for _, u := range f.Unknown {
		add(u.Module, u.Runtimes)
	}
	dependencies := []cyclonedx.Dependency{{Ref: "fleet", Dependencies: &modules}}
	for _, ref := range modules {
		uses := images[ref]
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: ref, Dependencies: &uses})
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	return bom
}

func runtimeCount(runtimes int) *[]cyclonedx.Property {
	return &[]cyclonedx.Property{{Name: "kyma-pull:runtimes", Value: strconv.Itoa(runtimes)}}
}

// containerComponent returns the component for an image. It has a package URL if the image reference is valid.
func containerComponent(text string) cyclonedx.Component {
	c := cyclonedx.Component{BOMRef: "image:" + text, Type: cyclonedx.ComponentTypeContainer, Name: text}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return c
	}
	c.Name = named.Name()
	qualifiers := url.Values{"repository_url": {named.Name()}}
	if tagged, ok := named.(reference.Tagged); ok {
		c.Version = tagged.Tag()
		qualifiers.Set("tag", tagged.Tag())
	}
	// Source: purl-spec, type oci. The name is the last path element of the repository, and the version is the digest.
	c.PackageURL = "pkg:oci/" + strings.ToLower(named.Name()[strings.LastIndexByte(named.Name(), '/')+1:])
	if digested, ok := named.(reference.Digested); ok {
		c.Version = digested.Digest().String()
		c.PackageURL += "@" + url.QueryEscape(c.Version)
	}
	c.PackageURL += "?" + qualifiers.Encode()
	return c
}
