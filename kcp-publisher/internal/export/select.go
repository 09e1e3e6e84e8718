// Package export puts together what a file holds that is carried to runtimes: runtime ids go in, a layout of named
// blobs and a table of contents come out. What the runtimes have already is left out. It reads registries and changes
// nothing there, but that it keeps the signed list of images beside the bundles, so that the same export gives the same
// file again.
package export

import (
	"cmp"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/airgap"
)

// Kinds of what is carried.
const (
	KindBundle  = "bundle"
	KindContent = "content"
	KindRelease = "release" // proof that a content was released
	KindRoot    = "root"
	KindImage   = "image"
)

// need is a blob that a runtime needs.
type need struct {
	runtime    string
	kind, name string
	item       airgap.Item
	// repository is where the blob is needed: a registry that has it in another one lacks it here.
	repository string
	// reference names the blob in the file, empty for what a manifest names.
	reference string
	// always says that the blob is carried even to whoever has it: it is what the file is about.
	always bool
}

// Entry is one line of the table of contents: all blobs of one kind and name that runtimes need.
type Entry struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Runtimes []string `json:"runtimes"`
	Blobs    int      `json:"blobs"`
	// SizeBytes is that of the blobs in the file, LeftOutBytes of those that the runtimes have already.
	SizeBytes    int64 `json:"sizeBytes"`
	LeftOutBytes int64 `json:"leftOutBytes,omitempty"`
}

// Parcel is what a file is to hold.
type Parcel struct {
	Layout   airgap.Layout
	Contents []Entry
	// Unlisted are modules with their versions whose components list no images, and that were not rendered, so that none
	// of theirs are carried. It is empty where no images were asked for.
	Unlisted []string
	// Modules say how the images of each were found, sorted. It is empty where no images were asked for.
	Modules []ModuleImages
}

// ModuleImages says how the images of a module were found.
type ModuleImages struct {
	Module  string `json:"module"`
	Version string `json:"version"`
	// Listed is how many images its component lists. They are carried.
	Listed int `json:"listed"`
	// Rendered says that its objects were rendered, so that what they use and nobody lists is carried, too.
	Rendered bool `json:"rendered"`
	// Problem says why a module that is only offered could not be rendered.
	Problem string `json:"problem,omitempty"`
}

// String returns the module's name and version.
func (m ModuleImages) String() string { return m.Module + " " + m.Version }

// place is a blob in a repository.
type place struct {
	repository string
	digest     digest.Digest
}

func (n need) place() place { return place{n.repository, n.item.Descriptor.Digest} }

// selected decides what is carried: whatever one of the runtimes needs and does not know. known are blobs by runtime.
// Blobs that runtimes share are carried once, and counted once, in the line where they come first.
func selected(needs []need, known map[string]map[place]bool) Parcel {
	wanted := map[digest.Digest]bool{}
	for _, n := range needs {
		d := n.item.Descriptor.Digest
		wanted[d] = wanted[d] || n.always || !known[n.runtime][n.place()]
	}
	var parcel Parcel
	lines := map[[2]string]*Entry{}
	var order []*Entry
	counted := map[digest.Digest]bool{}
	for _, n := range needs {
		line := lines[[2]string{n.kind, n.name}]
		if line == nil {
			line = &Entry{Kind: n.kind, Name: n.name, Runtimes: []string{}}
			lines[[2]string{n.kind, n.name}] = line
			order = append(order, line)
		}
		if n.runtime != "" && !slices.Contains(line.Runtimes, n.runtime) {
			line.Runtimes = append(line.Runtimes, n.runtime)
		}
		d := n.item.Descriptor
		if wanted[d.Digest] && n.reference != "" {
			parcel.Layout.References = append(parcel.Layout.References, airgap.Reference{Name: n.reference, Descriptor: d})
		}
		if counted[d.Digest] {
			continue
		}
		counted[d.Digest] = true
		if !wanted[d.Digest] {
			line.LeftOutBytes += d.Size
			continue
		}
		line.Blobs, line.SizeBytes = line.Blobs+1, line.SizeBytes+d.Size
		parcel.Layout.Items = append(parcel.Layout.Items, n.item)
	}
	for _, line := range order {
		slices.Sort(line.Runtimes)
		parcel.Contents = append(parcel.Contents, *line)
	}
	slices.SortStableFunc(parcel.Contents, func(a, b Entry) int { return cmp.Or(rank(a.Kind)-rank(b.Kind), cmp.Compare(a.Name, b.Name)) })
	return parcel
}

func rank(kind string) int {
	return slices.Index([]string{KindRoot, KindBundle, KindContent, KindRelease, KindImage}, kind)
}
