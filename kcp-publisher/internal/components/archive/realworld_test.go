package archive

import (
	"os"
	"path/filepath"
	"testing"

	"oras.land/oras-go/v2/content/memory"
)

const realworld = "../../../../../shared/realworld"

func TestArchivesFromTheOfficialCLIAreRead(t *testing.T) {
	if _, err := os.Stat(realworld); err != nil {
		t.Skip("shared/realworld is not next to this checkout")
	}
	const module = "component-descriptors/kyma-project.io/module/"
	for path, want := range map[string][]string{
		"ctf/keda-1.7.0":                          {module + "keda:1.7.0"},
		"ctf/keda-1.8.0":                          {module + "keda:1.8.0"},
		"ctf/template-operator-1.0.5":             {module + "template-operator:1.0.5"},
		"ctf/podinfo-6.14.1":                      {module + "podinfo:6.14.1"},
		"ctf/podinfo-6.14.1-signed":               {module + "podinfo:6.14.1", module + "podinfo:"},
		"ocm-vectors/ctf_buildmeta_none_external": {module + "build:1.0.0.build-ci.42"},
		"ocm-vectors/ctf_signed_rsa15_and_plain_pss": {
			module + "base:1.0.0", module + "top:1.2.3", module + "top:", module + "top:",
		},
		"ocm-vectors/ctf_signed_rsa15_pem_chain": {module + "base:1.0.0", module + "top:1.2.3", module + "top:"},
		"ocm-vectors/ctf_unsigned.tgz":           {module + "base:1.0.0", module + "top:1.2.3"},
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			a := open(t, filepath.Join(realworld, path))
			if err := a.Verify(t.Context()); err != nil {
				t.Error(err)
			}
			versions := a.Versions()
			if len(versions) != len(want) {
				t.Fatalf("got %d versions, want %d: %+v", len(versions), len(want), versions)
			}
			for i, v := range versions {
				if v.Repository+":"+v.Tag != want[i] {
					t.Errorf("%s:%s, want %s", v.Repository, v.Tag, want[i])
				}
				if v.Tag != "" {
					copyAll(t, a.Target(v.Repository), v.Tag, memory.New())
				}
			}
		})
	}
}

func TestOfficialCLIArchiveSurvivesRewriting(t *testing.T) {
	theirs := filepath.Join(realworld, "ocm-vectors/ctf_unsigned.tgz")
	if _, err := os.Stat(theirs); err != nil {
		t.Skip("shared/realworld is not next to this checkout")
	}
	from, path := open(t, theirs), filepath.Join(t.TempDir(), "ours")
	w, err := Create(path, Folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range from.Versions() {
		copyAll(t, from.Target(v.Repository), v.Tag, w.Target(v.Repository))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	theirIndex, err := from.blobs.indexBytes()
	if ours := read(t, filepath.Join(path, indexFile)); err != nil || string(ours) != string(theirIndex) {
		t.Errorf("the index is\n%s, want\n%s", ours, theirIndex)
	}
	blobs, err := from.blobs.list()
	if files, _ := os.ReadDir(filepath.Join(path, blobsDir)); err != nil || len(files) != len(blobs) {
		t.Errorf("got %d blobs, want %d", len(files), len(blobs))
	}
}
