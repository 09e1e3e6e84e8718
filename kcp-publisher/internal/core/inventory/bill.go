package inventory

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/distribution/reference"
)

// These are the names of component properties.
const (
	propertyRuntimes     = "kyma-pull:runtimes"
	propertyOldestReport = "kyma-pull:oldest-report"
	propertyIncomplete   = "kyma-pull:incomplete"
	propertyUnreported   = "kyma-pull:unreported-runtimes"
)

// CycloneDX returns the inventory as a CycloneDX bill of materials. Its components are the fleet, the module versions
// and their images. Each component contains the number of runtimes that run it and the time of their oldest report. If
// the images of a module version could not be determined for all runtimes, its component contains the reason. The
// fleet's component contains the number of runtimes that never reported.
func (f Fleet) CycloneDX(name string, now time.Time) *cyclonedx.BOM {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: now.UTC().Format(time.RFC3339),
		Component: &cyclonedx.Component{BOMRef: "fleet", Type: cyclonedx.ComponentTypePlatform, Name: name},
	}
	if f.Unreported > 0 {
		bom.Metadata.Component.Properties = &[]cyclonedx.Property{
			{Name: propertyUnreported, Value: strconv.Itoa(f.Unreported)},
			{Name: propertyIncomplete, Value: "runtimes that never reported are not included"},
		}
	}
	components, modules := []cyclonedx.Component{}, []string{} // the schema requires lists instead of null
	images := map[string][]string{}
	add := func(m Module, properties []cyclonedx.Property) (ref string) {
		ref = "module:" + m.Name + "@" + m.Version
		if _, known := images[ref]; !known {
			images[ref] = []string{}
			modules = append(modules, ref)
			components = append(components, cyclonedx.Component{
				BOMRef: ref, Type: cyclonedx.ComponentTypeApplication, Name: m.Name, Version: m.Version,
				Properties: &properties,
			})
		}
		return ref
	}
	properties := f.moduleProperties()
	for _, image := range f.Images {
		c := containerComponent(image.Reference)
		c.Properties = new(usageProperties(image.Runtimes(), image.Oldest()))
		for _, u := range image.Uses {
			ref := add(u.Module, properties[u.Module])
			images[ref] = append(images[ref], c.BOMRef)
		}
		components = append(components, c)
	}
	for _, m := range f.Modules {
		add(m.Module, properties[m.Module])
	}
	for _, u := range f.Unknown {
		add(u.Module, properties[u.Module])
	}
	dependencies := []cyclonedx.Dependency{{Ref: "fleet", Dependencies: &modules}}
	for _, ref := range modules {
		uses := images[ref]
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: ref, Dependencies: &uses})
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	return bom
}

// moduleProperties returns the properties of each module version. The images of a version can differ between runtimes,
// so a module version can run in more runtimes than each of its images.
func (f Fleet) moduleProperties() map[Module][]cyclonedx.Property {
	all, uses := map[Module][]cyclonedx.Property{}, map[Module]ModuleUse{}
	for _, m := range f.Modules {
		uses[m.Module], all[m.Module] = m, usageProperties(m.Runtimes, m.Oldest)
	}
	for _, u := range f.Unknown {
		all[u.Module] = append(usageProperties(u.Runtimes, uses[u.Module].Oldest),
			cyclonedx.Property{Name: propertyIncomplete, Value: u.Problem})
	}
	return all
}

// usageProperties returns the number of runtimes and the time of their oldest report. It omits a zero time.
func usageProperties(runtimes int, oldest time.Time) []cyclonedx.Property {
	all := []cyclonedx.Property{{Name: propertyRuntimes, Value: strconv.Itoa(runtimes)}}
	if !oldest.IsZero() {
		all = append(all, cyclonedx.Property{Name: propertyOldestReport, Value: oldest.UTC().Format(time.RFC3339)})
	}
	return all
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
