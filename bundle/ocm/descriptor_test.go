package ocm

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const (
	realworld = "../../../shared/realworld"
	hello     = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	head      = "meta: {schemaVersion: v2}\ncomponent:\n  name: kyma-pull.dev/module/scaler\n"
	good      = head + "  version: 1.2.3\n  provider: kyma-pull.dev\n  sources: null\n  resources:\n"
)

func local(name, more string) string {
	return "  - {name: " + name +
		", version: 1.2.3, type: directoryTree, relation: local, access: {type: localBlob, localReference: \"" + hello +
		"\"}" + more + "}\n"
}

func TestValidDescriptorsAreDecoded(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want Descriptor
	}{
		"descriptor without resources": {
			head + "  version: 1.2.3\n  resources: null\n",
			Descriptor{Version: "1.2.3"}},
		"version that looks like a number stays text": {
			head + "  version: 1.10\n",
			Descriptor{Version: "1.10"}},
		"resource version that looks like a number stays text": {
			good + "  - {name: raw, version: 0123456789012345678901234567890123456789, access: {type: none, unknown: " +
				"{a: [1]}}}\n",
			Descriptor{
				Version: "1.2.3", Resources: []Resource{
					{
						Element: Element{Name: "raw", Version: "0123456789012345678901234567890123456789"},
						Access:  Access{Type: "none"},
					},
				},
			}},
		"version with build metadata": {
			head + "  version: 1.0.0+ci.42\n",
			Descriptor{Version: "1.0.0+ci.42"}},
		"local blob": {
			good + local("raw-manifest", ""),
			Descriptor{Version: "1.2.3",
				Resources: []Resource{{Element: Element{Name: "raw-manifest", Version: "1.2.3"}, Type: "directoryTree",
					Relation: "local",
					Access:   Access{Type: "localBlob", LocalReference: hello}}}}},
		"local blob as lifecycle-manager wrote it": {
			good + "  - {name: raw-manifest, type: yaml, access: {type: localOciBlob, digest: \"" + hello + "\"}}\n",
			Descriptor{
				Version: "1.2.3", Resources: []Resource{
					{
						Element: Element{Name: "raw-manifest"}, Type: "yaml", Access: Access{
							Type: "localOciBlob", LocalReference: hello,
						},
					},
				},
			}},
		"image": {
			good + "  - {name: operator, type: ociArtifact, access: {type: ociArtifact/v1, imageReference: " +
				"registry.example/operator:1}}\n",
			Descriptor{
				Version: "1.2.3", Resources: []Resource{
					{
						Element: Element{Name: "operator"}, Type: "ociArtifact", Access: Access{
							Type: "ociArtifact/v1", ImageReference: "registry.example/operator:1",
						},
					},
				},
			}},
		"JSON document": {
			`{"meta":{"schemaVersion":"v2"},"component":{"name":"kyma-pull.dev/module/scaler","version":"v1"}}`,
			Descriptor{Version: "v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if got.Name != "kyma-pull.dev/module/scaler" || got.Version != c.want.Version ||
				!slices.EqualFunc(got.Resources, c.want.Resources,
					func(a, b Resource) bool { return reflect.DeepEqual(a, b) }) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestDescriptorDocumentKeepsOriginalValues(t *testing.T) {
	d, err := Decode(
		[]byte("meta: {schemaVersion: v2, more: {a: 1.50}}\ncomponent:\n  name: kyma-pull.dev/module/scaler\n  " +
			"version: 1.10\n  unknown: [0012, 0x1f, .5, 2026-01-02, null, true, \"7\"]\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Document()
	want := `{"component":{"name":"kyma-pull.dev/module/scaler","unknown":["0012",31,0.5,"2026-01-02",null,true,"7"],"version":1.10},"meta":{"more":{"a":1.50},"schemaVersion":"v2"}}`
	if err != nil || string(got) != want {
		t.Errorf("%v: got\n%s\nwant\n%s", err, got, want)
	}
}

func TestBothSchemasDecodeToTheSameDescriptor(t *testing.T) {
	v3, err := Decode([]byte(`
apiVersion: ocm.software/v3alpha1
kind: ComponentVersion
metadata:
  name: kyma-pull.dev/module/scaler
  version: 1.2.3
  creationTime: "2026-01-01T00:00:00Z"
  provider: {name: kyma-pull.dev, labels: [{name: a, value: {b: 1}, signing: true}]}
  labels: [{name: l, value: x}]
repositoryContexts: [{type: OCIRegistry, baseUrl: registry.example, subPath: a/b}]
spec:
  resources: [{name: raw, version: 1.2.3, type: blob, relation: local, access: {type: localBlob, localReference: "` + hello + `"}, digest: {hashAlgorithm: SHA-256, normalisationAlgorithm: genericBlobDigest/v1, value: 00}}]
  sources: [{name: src, version: 1.2.3, type: git, access: {type: gitHub}}]
  references: [{name: base, version: 1.0.0, componentName: kyma-pull.dev/module/base, extraIdentity: {a: b}}]
signatures: [{name: s, digest: {hashAlgorithm: SHA-256, normalisationAlgorithm: jsonNormalisation/v3, value: 01}, signature: {algorithm: RSASSA-PSS, mediaType: m, value: v, issuer: i}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	made := v3
	made.document = nil // without the original document, encoding starts from the model
	document, err := made.Document()
	if err != nil {
		t.Fatal(err)
	}
	v2, err := Decode(document)
	if err != nil {
		t.Fatalf("got error %v, want no error for\n%s", err, document)
	}
	if v2.Schema != SchemaV2 || v3.Schema != SchemaV3 || v3.RepositoryContexts[0].ComponentNameMapping != "urlPath" {
		t.Errorf("got schemas %s and %s, contexts %v, want v2 and v3", v2.Schema, v3.Schema, v3.RepositoryContexts)
	}
	// The comparison excludes repository contexts.
	v2.document, v2.Schema, v2.RepositoryContexts = nil, made.Schema, made.RepositoryContexts
	if !reflect.DeepEqual(v2, made) {
		t.Errorf("got\n%+v\nwant\n%+v", v2, made)
	}
	for _, normalisation := range []string{NormalisationV1, NormalisationV2, NormalisationV3, NormalisationV4} {
		a, errA := DigestOf(v2, normalisation, "SHA-512")
		b, errB := DigestOf(v3, normalisation, "SHA-512")
		if errA != nil || errB != nil || a != b || len(a) != 128 {
			t.Errorf("%s: got digests %s (error %v) and %s (error %v), want equal digests", normalisation, a, errA,
				b, errB)
		}
	}
}

func TestErrorForAnInvalidDescriptorNamesTheField(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"empty document": {"", "component descriptor: the document is empty"},
		"two documents":  {good + "---\na: 1\n", "more than 1 documents"},
		"scalar":         {"hello", "component descriptor: "},
		"unknown schema": {"meta: {schemaVersion: v9}", `meta.schemaVersion: "v9" is not supported`},
		"unknown apiVersion": {
			"apiVersion: ocm.software/v4\nkind: ComponentVersion",
			"apiVersion: ocm.software/v4 ComponentVersion is not supported",
		},
		"two schemas": {
			"apiVersion: ocm.software/v3alpha1\nkind: ComponentVersion\n" + good, "apiVersion",
		},
		"component name without a domain": {strings.Replace(good, "kyma-pull.dev/", "", 1), "component.name"},
		"component name with ..":          {strings.Replace(good, "module/scaler", "../../etc", 1), "component.name"},
		"missing version":                 {head, "component.version"},
		"version that is a path":          {head + "  version: ../1\n", "component.version"},
		"version that is a digest":        {head + "  version: \"" + hello + "\"\n", "component.version"},
		"resource without a name": {
			good + "  - {access: {type: none}}\n", "component.resources[0]: name and access.type",
		},
		"resource without access": {good + "  - {name: raw}\n", "component.resources[0]: name and access.type"},
		"local blob that is a path": {
			good + "  - {name: raw, access: {type: localBlob, localReference: ../../x}}\n",
			"component.resources[0].access.localReference",
		},
		"local blob with an unknown hash algorithm": {
			good + "  - {name: raw, access: {type: localBlob, localReference: \"md5:00\"}}\n",
			"component.resources[0].access.localReference",
		},
		"local blob with a short digest": {
			good + "  - {name: raw, access: {type: localBlob, localReference: \"sha256:00\"}}\n",
			"component.resources[0].access.localReference",
		},
		"duplicate resource": {
			good + local("raw", "") + local("raw", ""), `component.resources[1].name: "raw" appears twice`,
		},
		"duplicate key":        {good + "  version: 1.2.4\n", `key "version" appears twice`},
		"alias":                {head + "  version: &v 1.2.3\n  provider: *v\n", "anchors and aliases"},
		"list instead of text": {head + "  version: [1]\n", "component descriptor: "},
		"descriptor larger than the limit": {
			good + strings.Repeat("#", MaxDescriptorBytes), "larger than 1048576 bytes",
		},
		"more resources than the limit": {
			good + strings.Repeat("  - {name: a}\n", 2_001), "component.resources: 2001 entries, must be at most 2000",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode([]byte(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestResourceIsFoundOnlyByAUniqueName(t *testing.T) {
	d, err := Decode(
		[]byte(good + local("raw", "") + local("tool", ", extraIdentity: {os: linux}") +
			local("tool", ", extraIdentity: {os: windows}")))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := d.Resource("raw"); !ok {
		t.Error("resource raw: got not found, want found")
	}
	for _, name := range []string{"tool", "missing", ""} {
		if _, ok := d.Resource(name); ok {
			t.Errorf("%q: got a resource for an ambiguous name, want none", name)
		}
	}
}

func TestVersionsAreConvertedToTags(t *testing.T) {
	for version, tag := range map[string]string{
		"1.2.3": "1.2.3", "v1.2.3": "v1.2.3", "1": "1", "1.2": "1.2", "1.2.3-rc.1": "1.2.3-rc.1",
		"1.0.0+ci.42": "1.0.0.build-ci.42", "1.0.0-rc+ci-1": "1.0.0-rc.build-ci-1",
		"": "", "latest": "", "1.2.3.4": "", "01.2.3": "", "1.2.3 ": "", "1.2.3\n": "", "1.2.3/..": "", "1.2.3@x": "",
		"1.2.3+a+b":                         "",
		"1.2.3-" + strings.Repeat("a", 122): "1.2.3-" + strings.Repeat("a", 122),
		"1.2.3-" + strings.Repeat("a", 123): "",
	} {
		err := CheckVersion(version)
		if (err == nil) != (tag != "") {
			t.Errorf("version %q: got error %v, want accepted: %t", version, err, tag != "")
		}
		if err == nil && Tag(version) != tag {
			t.Errorf("version %q: got tag %q, want %q", version, Tag(version), tag)
		}
	}
}

func TestAccessTypesHaveACanonicalSpelling(t *testing.T) {
	for spelling, kind := range map[string]string{
		"localBlob": AccessLocalBlob, "localBlob/v1": AccessLocalBlob, "LocalBlob/v1": AccessLocalBlob,
		"localOciBlob": AccessLocalBlob,
		"ociArtifact":  AccessOCIArtifact, "ociRegistry": AccessOCIArtifact, "OCIImage/v1": AccessOCIArtifact,
		"wget/v1": "wget", "none": "none",
	} {
		if got := (Access{Type: spelling}).Kind(); got != kind {
			t.Errorf("%s: got %s, want %s", spelling, got, kind)
		}
	}
}

type member struct {
	name, content string
	kind          byte
}

func archive(t testing.TB, members ...member) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, m := range members {
		header := &tar.Header{Name: m.name, Typeflag: m.kind, Mode: 0o644, Size: int64(len(m.content))}
		if m.kind == tar.TypeSymlink {
			header.Linkname = "/etc/passwd"
		}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Write([]byte(m.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestDescriptorIsReadFromALayer(t *testing.T) {
	const file = "component-descriptor.yaml"
	regular := func(name, content string) member { return member{name, content, tar.TypeReg} }
	for name, c := range map[string]struct {
		members []member
		want    string // part of the error; empty for success
	}{
		"plain name":                        {[]member{regular(file, "x")}, ""},
		"name with a leading slash":         {[]member{regular("/"+file, "x")}, ""},
		"name with a leading dot and slash": {[]member{regular("./"+file, "x")}, ""},
		"descriptor with a folder":          {[]member{{"./", "", tar.TypeDir}, regular(file, "x")}, ""},
		"layer without files":               {nil, "is missing"},
		"unrelated file":                    {[]member{regular("README.md", "x")}, `unexpected member "README.md"`},
		"descriptor with another file": {
			[]member{regular(file, "x"), regular("run.sh", "x")}, `unexpected member "run.sh"`,
		},
		"duplicate descriptor":       {[]member{regular(file, "x"), regular("./"+file, "y")}, "appears twice"},
		"name with .. at the start":  {[]member{regular("../"+file, "x")}, "unexpected member"},
		"name with .. in the middle": {[]member{regular("a/../"+file, "x")}, "unexpected member"},
		"name with a leading dot":    {[]member{regular("."+file, "x")}, "unexpected member"},
		"symbolic link":              {[]member{{file, "", tar.TypeSymlink}}, "unexpected member"},
		"device":                     {[]member{{file, "", tar.TypeChar}}, "unexpected member"},
		"descriptor larger than the limit": {
			[]member{regular(file, strings.Repeat("x", MaxDescriptorBytes+1))}, "larger than 1048576 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := FromTar(archive(t, c.members...))
			switch {
			case c.want == "" && (err != nil || string(got) != "x"):
				t.Errorf("got descriptor %q, error %v, want x", got, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	whole := archive(t, regular(file, strings.Repeat("x", 600)))
	if _, err := FromTar(whole[:700]); err == nil {
		t.Error("truncated layer: got no error, want an error")
	}
}

func TestDescriptorsFromTheOCMCLIAreDecoded(t *testing.T) {
	if _, err := os.Stat(realworld); err != nil {
		t.Skip("shared/realworld not found next to this checkout")
	}
	for file, want := range map[string]string{
		"ocm-vectors/ocmcli_0.27_input.yaml":     "ocm.software/ocmcli:0.27.0",
		"ocm-vectors/top_signed_descriptor.yaml": "kyma-project.io/module/top:1.2.3",
	} {
		data, err := os.ReadFile(filepath.Join(realworld, file))
		if err != nil {
			t.Fatal(err)
		}
		d, err := Decode(data)
		if err != nil || d.Name+":"+d.Version != want || len(d.Resources) == 0 {
			t.Errorf("%s: got %s:%s with %d resources, error %v, want %s",
				file, d.Name, d.Version, len(d.Resources), err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(good + local("raw", "")))
	f.Add([]byte("meta: {schemaVersion: v2}\ncomponent: {name: 1, version: 1.10}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Decode(data)
		if err == nil && (CheckName(d.Name) != nil || CheckVersion(d.Version) != nil) {
			t.Errorf("got accepted name %q and version %q, want an error", d.Name, d.Version)
		}
	})
}

func FuzzFromTar(f *testing.F) {
	f.Add(archive(f, member{"component-descriptor.yaml", good, tar.TypeReg}))
	f.Add(archive(f, member{"component-descriptor.yaml", "", tar.TypeSymlink}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if found, err := FromTar(data); err == nil && len(found) > MaxDescriptorBytes {
			t.Errorf("got %d bytes, want at most %d", len(found), MaxDescriptorBytes)
		}
	})
}
