package ocm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func TestCheckNameRefusesInvalidComponentNames(t *testing.T) {
	for name, c := range map[string]struct {
		in string
		ok bool
	}{
		"component of a Kyma module":          {"kyma-project.io/module/keda", true},
		"domain with three labels":            {"github.example.com/org/name", true},
		"underscores in the path":             {"a.io/b_c", true},
		"dots in the path":                    {"a.io/b.c", true},
		"domain without a path":               {"a.io", false},
		"domain with one label":               {"localhost/a", false},
		"trailing slash":                      {"a.io/b/", false},
		"empty path element":                  {"a.io//b", false},
		"path element that starts with a dot": {"a.io/.b", false},
		"path element ..":                     {"a.io/../b", false},
		"name with a tag":                     {"a.io/b:1", false},
		"line feed at the end":                {"a.io/b\n", false},
		"255 characters":                      {"a.io/" + strings.Repeat("b", 250), true},
		"256 characters":                      {"a.io/" + strings.Repeat("b", 251), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckName(c.in); (err == nil) != c.ok {
				t.Errorf("got %v, want accepted: %t", err, c.ok)
			}
		})
	}
}

func TestDescriptorWithMaximumNumberOfResourcesIsDecoded(t *testing.T) {
	var in strings.Builder
	in.WriteString(good)
	for i := range maxElements {
		fmt.Fprintf(&in, "  - {name: r%d, access: {type: none}}\n", i)
	}
	if d, err := Decode([]byte(in.String())); err != nil || len(d.Resources) != maxElements {
		t.Errorf("got %d resources, error %v, want %d", len(d.Resources), err, maxElements)
	}
}

func TestResourcesWithTheSameNameNeedDistinctIdentities(t *testing.T) {
	for name, second := range map[string]string{
		"different versions":         strings.Replace(local("raw", ""), "version: 1.2.3", "version: 1.2.30", 1),
		"different extra identities": local("raw", ", extraIdentity: {os: linux}"),
	} {
		t.Run(name, func(t *testing.T) {
			if d, err := Decode([]byte(good + local("raw", "") + second)); err != nil || len(d.Resources) != 2 {
				t.Errorf("got resources %+v, error %v, want two", d.Resources, err)
			}
		})
	}
}

func TestArchivesFromTheOfficialOCMToolAreDecoded(t *testing.T) {
	archives, err := filepath.Glob(filepath.FromSlash(realworld + "/ctf/*/artifact-index.json"))
	if err != nil || len(archives) == 0 {
		t.Skip("shared/realworld/ctf not found next to this checkout")
	}
	for _, index := range archives {
		folder := filepath.Dir(index)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			blob := func(d digest.Digest) []byte {
				data, err := os.ReadFile(filepath.Join(folder, "blobs", strings.Replace(d.String(), ":", ".", 1)))
				if err != nil {
					t.Fatal(err)
				}
				return data
			}
			read := func(data []byte, v any) {
				if err := json.Unmarshal(data, v); err != nil {
					t.Fatal(err)
				}
			}
			data, err := os.ReadFile(index)
			if err != nil {
				t.Fatal(err)
			}
			var found struct {
				Artifacts []struct {
					Repository, Tag string
					Digest          digest.Digest
				}
			}
			read(data, &found)
			checked := 0
			for _, artifact := range found.Artifacts {
				if artifact.Tag == "" {
					continue // older version of the same component
				}
				checked++
				var manifest struct{ Layers []ocispec.Descriptor }
				read(blob(artifact.Digest), &manifest)
				text, err := FromTar(blob(manifest.Layers[0].Digest))
				if err != nil {
					t.Fatal(err)
				}
				descriptor, err := Decode(text)
				if err != nil {
					t.Fatal(err)
				}
				if "component-descriptors/"+descriptor.Name != artifact.Repository ||
					Tag(descriptor.Version) != artifact.Tag {
					t.Errorf("got %s %s, want %s %s", descriptor.Name, descriptor.Version, artifact.Repository,
						artifact.Tag)
				}
				if len(descriptor.Resources) == 0 {
					t.Error("got a descriptor without resources, want at least one")
				}
				for _, resource := range descriptor.Resources {
					reference := digest.Digest(resource.Access.LocalReference)
					if resource.Access.Kind() != AccessLocalBlob {
						continue
					}
					if !slices.ContainsFunc(manifest.Layers,
						func(l ocispec.Descriptor) bool { return l.Digest == reference }) {
						t.Errorf("resource %s refers to layer %s, which is missing from the manifest", resource.Name,
							reference)
					}
				}
			}
			if checked == 0 {
				t.Error("got an archive without components, want at least one")
			}
		})
	}
}
