// Package export selects the content of an air-gap file for several runtimes. It omits blobs that the runtimes already
// have. It only reads from registries, with one exception: it pushes the signed image list, so that a repeated export
// has the same bytes.
package export

import (
	"cmp"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle/airgap"
)

// These are the kinds of exported blobs.
const (
	KindBundle  = "bundle"
	KindContent = "content"
	KindRelease = "release" // proof that a release key signed the module's component
	KindRoot    = "root"
	KindImage   = "image"
)

type blobNeed struct {
	runtime    string
	kind, name string
	item       airgap.Item
	// repository is the repository in the runtime's registry that must contain the blob.
	repository string
	// reference is the blob's name in the file, or empty for a blob that a manifest references.
	reference string
	// isRequired is true for a bundle's blobs, which the file contains even if the runtime already has them.
	isRequired bool
}

// Entry is one line in an export's table of contents. It covers all blobs with the same kind and name.
type Entry struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Runtimes []string `json:"runtimes"`
	Blobs    int      `json:"blobs"`
	// SizeBytes is the total size of the blobs in the file. LeftOutBytes is the total size of the omitted blobs.
	SizeBytes    int64 `json:"sizeBytes"`
	LeftOutBytes int64 `json:"leftOutBytes,omitempty"`
}

// Parcel is an export file's content.
type Parcel struct {
	Layout   airgap.Layout
	Contents []Entry
	// Unlisted lists the modules and versions with unknown images. The file does not contain these images.
	Unlisted []string
	// Modules describes how each module's images were found, sorted by module.
	Modules []ModuleImages
}

// ModuleImages describes how a module's images were found.
type ModuleImages struct {
	Module  string `json:"module"`
	Version string `json:"version"`
	// Listed is the number of images that the module's component lists.
	Listed int `json:"listed"`
	// Rendered is true if the module was rendered to find its unlisted images.
	Rendered bool `json:"rendered"`
	// Problem is the reason why an offered module could not be rendered, or empty.
	Problem string `json:"problem,omitempty"`
}

func (m ModuleImages) String() string { return m.Module + " " + m.Version }

// blobPlace identifies a blob in a repository.
type blobPlace struct {
	repository string
	digest     digest.Digest
}

func (n blobNeed) place() blobPlace { return blobPlace{n.repository, n.item.Descriptor.Digest} }

// selectBlobs returns the blobs that at least one runtime needs and does not have. known contains the
// blobs that each runtime has. A blob that several runtimes need is counted once.
func selectBlobs(needs []blobNeed, known map[string]map[blobPlace]bool) Parcel {
	wanted := map[digest.Digest]bool{}
	for _, n := range needs {
		d := n.item.Descriptor.Digest
		wanted[d] = wanted[d] || n.isRequired || !known[n.runtime][n.place()]
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
			parcel.Layout.References = append(parcel.Layout.References,
				airgap.Reference{Name: n.reference, Descriptor: d})
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
	slices.SortStableFunc(parcel.Contents, func(a, b Entry) int {
		return cmp.Or(kindRank(a.Kind)-kindRank(b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return parcel
}

func kindRank(kind string) int {
	return slices.Index([]string{KindRoot, KindBundle, KindContent, KindRelease, KindImage}, kind)
}
