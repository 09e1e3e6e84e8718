// Package inventory lists the fleet's images and the runtimes that run each image. It combines the reported module
// versions with each version's images. It does not perform I/O.
package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
)

// Module identifies a version of a module.
type Module struct {
	Name    string `json:"module"`
	Version string `json:"version"`
}

func (m Module) compare(other Module) int {
	return cmp.Or(cmp.Compare(m.Name, other.Name), cmp.Compare(m.Version, other.Version))
}

// Runtime contains the ID of a runtime and the module versions in its last report.
type Runtime struct {
	ID string
	// Reported is the creation time of the last report, by the runtime's clock.
	Reported time.Time
	// Bundle is the digest of the bundle in the last report. In the result of PublishedRuntimes, it is the digest of
	// the last published bundle.
	Bundle  string
	Modules []Module
	// Kubernetes is the Kubernetes version in the last report, or empty.
	Kubernetes string
}

// Holder is a runtime that runs an image, with the time of its report.
type Holder struct {
	Runtime  string    `json:"runtime"`
	Reported time.Time `json:"reported"`
}

// Use is a module version that uses an image.
type Use struct {
	Module
	// Runtimes are sorted by ID.
	Runtimes []Holder `json:"runtimes"`
}

// Image is a container image in the fleet, with the module versions that use it.
type Image struct {
	// Reference is the image reference as written in the module's manifest.
	Reference string `json:"image"`
	// Uses are sorted by module and version.
	Uses []Use `json:"uses"`
}

// Runtimes returns the number of runtimes that run the image.
func (i Image) Runtimes() int {
	ids := map[string]bool{}
	for _, u := range i.Uses {
		for _, h := range u.Runtimes {
			ids[h.Runtime] = true
		}
	}
	return len(ids)
}

// Oldest returns the time of the oldest report among the runtimes that run the image.
func (i Image) Oldest() time.Time {
	var oldest time.Time
	for _, u := range i.Uses {
		for _, h := range u.Runtimes {
			if oldest.IsZero() || h.Reported.Before(oldest) {
				oldest = h.Reported
			}
		}
	}
	return oldest
}

// Unknown is a module version whose images could not be determined for all runtimes.
type Unknown struct {
	Module
	Runtimes int    `json:"runtimes"`
	Problem  string `json:"problem"`
}

// NoBundle is the value of Unknown.Problem if no readable bundle contains the module version.
const NoBundle = "no bundle with this version was found"

// ModuleUse is a module version with the number of runtimes that run it, and the time of their oldest report.
type ModuleUse struct {
	Module
	Runtimes int
	Oldest   time.Time
}

// Fleet is the inventory of all images.
type Fleet struct {
	// Images are sorted by reference.
	Images []Image `json:"images"`
	// Modules are sorted by module and version. They include module versions without images.
	Modules []ModuleUse `json:"-"`
	// Unknown lists the module versions whose images could not be determined for all runtimes, sorted.
	Unknown []Unknown `json:"unknown,omitempty"`
	// Unreported is the number of runtimes that never reported. The inventory does not include them.
	Unreported int `json:"unreported,omitempty"`
}

// Content contains the images of a module version. If the images could not be determined for all runtimes, Problem is
// the reason.
type Content struct {
	Images  []string
	Problem string
	// Kubernetes maps a Kubernetes version to the images in runtimes with this version, if they differ from Images.
	Kubernetes map[string][]string
}

// imagesOn returns the images in runtimes with this Kubernetes version.
func (c Content) imagesOn(kubernetes string) []string {
	if images, differ := c.Kubernetes[kubernetes]; differ {
		return images
	}
	return c.Images
}

// Merge adds the images from another bundle with the same module version. The result contains the Problem of other.
func (c Content) Merge(other Content) Content {
	merged := Content{Images: union(c.Images, other.Images), Problem: other.Problem}
	for _, differing := range []map[string][]string{c.Kubernetes, other.Kubernetes} {
		for kubernetes := range differing {
			if merged.Kubernetes == nil {
				merged.Kubernetes = map[string][]string{}
			}
			merged.Kubernetes[kubernetes] = union(c.imagesOn(kubernetes), other.imagesOn(kubernetes))
		}
	}
	return merged
}

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, text := range b {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// New returns the inventory of the runtimes. contents contains the images of each module version.
func New(runtimes []Runtime, contents map[Module]Content) Fleet {
	fleet := Fleet{Images: []Image{}}
	holders := map[Module][]*Runtime{}
	byID := slices.SortedFunc(slices.Values(runtimes), func(a, b Runtime) int { return cmp.Compare(a.ID, b.ID) })
	for i := range byID {
		r := &byID[i]
		if r.Reported.IsZero() {
			fleet.Unreported++
			continue
		}
		for _, m := range r.Modules {
			if all := holders[m]; len(all) == 0 || all[len(all)-1] != r { // a report could repeat a module
				holders[m] = append(all, r)
			}
		}
	}
	images := map[string][]Use{}
	for _, m := range slices.SortedFunc(maps.Keys(holders), Module.compare) {
		content, known := contents[m]
		if problem := content.Problem; problem != "" || !known {
			fleet.Unknown = append(fleet.Unknown, Unknown{m, len(holders[m]), cmp.Or(problem, NoBundle)})
		}
		oldest := slices.MinFunc(holders[m], func(a, b *Runtime) int { return a.Reported.Compare(b.Reported) })
		fleet.Modules = append(fleet.Modules, ModuleUse{m, len(holders[m]), oldest.Reported})
		for text, by := range content.holders(holders[m]) {
			images[text] = append(images[text], Use{m, by})
		}
	}
	for _, text := range slices.Sorted(maps.Keys(images)) {
		fleet.Images = append(fleet.Images, Image{text, images[text]})
	}
	return fleet
}

// holders returns the runtimes that run each image. Images with the same runtimes share a list, because a module with
// many images in many runtimes could otherwise fill the memory.
func (c Content) holders(runtimes []*Runtime) map[string][]Holder {
	byKubernetes := map[string][]Holder{} // the key of runtimes with c.Images has no prefix
	group := func(r *Runtime) string {
		if _, differ := c.Kubernetes[r.Kubernetes]; differ {
			return "=" + r.Kubernetes
		}
		return ""
	}
	groups := map[string][]string{} // groups of runtimes by image
	for _, r := range runtimes {
		of := group(r)
		if byKubernetes[of] == nil {
			for _, text := range c.imagesOn(r.Kubernetes) {
				if !slices.Contains(groups[text], of) {
					groups[text] = append(groups[text], of)
				}
			}
		}
		byKubernetes[of] = append(byKubernetes[of], Holder{r.ID, r.Reported})
	}
	all, shared := map[string][]Holder{}, map[string][]Holder{}
	for text, of := range groups {
		key := strings.Join(of, ",")
		if shared[key] == nil {
			for _, one := range of {
				shared[key] = append(shared[key], byKubernetes[one]...)
			}
			slices.SortStableFunc(shared[key], func(a, b Holder) int { return cmp.Compare(a.Runtime, b.Runtime) })
		}
		all[text] = shared[key]
	}
	return all
}

// Select returns the part of the inventory that matches an image and a module. The image is a reference, a digest or a
// name. An empty image or module matches everything. With an image, Select omits modules that do not use it.
func (f Fleet) Select(image, module string) Fleet {
	selected, isUser := Fleet{Images: []Image{}, Unreported: f.Unreported}, map[Module]bool{}
	for _, i := range f.Images {
		if !matchesImage(i.Reference, image) {
			continue
		}
		i.Uses = slices.DeleteFunc(slices.Clone(i.Uses), func(u Use) bool { return module != "" && u.Name != module })
		if len(i.Uses) > 0 {
			selected.Images = append(selected.Images, i)
		}
		for _, u := range i.Uses {
			isUser[u.Module] = true
		}
	}
	for _, m := range f.Modules {
		if (module == "" || m.Name == module) && (image == "" || isUser[m.Module]) {
			selected.Modules = append(selected.Modules, m)
		}
	}
	for _, u := range f.Unknown {
		if module == "" || u.Name == module {
			selected.Unknown = append(selected.Unknown, u)
		}
	}
	return selected
}

func matchesImage(text, query string) bool {
	if query == "" || text == query {
		return true
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return false
	}
	named = withCanonicalHost(named)
	if digested, ok := named.(reference.Digested); ok && digested.Digest().String() == query {
		return true
	}
	if named.Name() == query || reference.Path(named) == query || strings.HasSuffix(named.Name(), "/"+query) {
		return true
	}
	wanted, err := reference.ParseNormalizedNamed(query)
	if err != nil {
		return false
	}
	if wanted = withCanonicalHost(wanted); wanted.Name() != named.Name() {
		return false
	}
	return matchesReference(named, wanted)
}

// withCanonicalHost returns the reference with the registry's host in lower case and without the default port,
// because different spellings of the host identify the same registry.
func withCanonicalHost(named reference.Named) reference.Named {
	host := reference.Domain(named)
	canonical := strings.TrimSuffix(strings.ToLower(host), ":443")
	if canonical == host {
		return named
	}
	changed, err := reference.ParseNormalizedNamed(canonical + strings.TrimPrefix(named.String(), host))
	if err != nil || reference.Domain(changed) != canonical {
		return named // without its port, the host looks like a path element
	}
	return changed
}

// matchesReference reports whether an image matches the wanted image. If the wanted image has a digest, the digests
// must be equal. If it has only a tag, the tags must be equal.
func matchesReference(named, wanted reference.Named) bool {
	if digested, ok := wanted.(reference.Digested); ok {
		own, has := named.(reference.Digested)
		return has && own.Digest() == digested.Digest()
	}
	if tagged, ok := wanted.(reference.Tagged); ok {
		own, has := named.(reference.Tagged)
		return has && own.Tag() == tagged.Tag()
	}
	return true
}
