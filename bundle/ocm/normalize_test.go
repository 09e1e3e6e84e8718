package ocm

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "update the golden files")

var normalisations = []string{NormalisationV1, NormalisationV2, NormalisationV3, NormalisationV4}

func scaler(t testing.TB) Descriptor {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "scaler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNormalizedDescriptorsContainTheSignedFields(t *testing.T) {
	v3 := scaler(t)
	v3.Schema = SchemaV3
	for _, c := range []struct {
		d               Descriptor
		algorithm, file string
	}{
		{scaler(t), NormalisationV1, "scaler.norm.v1"},
		{v3, NormalisationV1, "scaler.norm.v1.v3alpha1"},
		{scaler(t), NormalisationV2, "scaler.norm.v2"},
		{scaler(t), NormalisationV3, "scaler.norm.v3"},
		{v3, NormalisationV3, "scaler.norm.v3"},
		{scaler(t), NormalisationV4, "scaler.norm.v3"},
	} {
		t.Run(c.d.Schema+"/"+c.algorithm, func(t *testing.T) {
			got, err := Normalize(c.d, c.algorithm)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", c.file)
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got)+"\n" != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestUnsignedFieldsDoNotChangeTheDigest(t *testing.T) {
	for name, change := range map[string]func(*Descriptor){
		"changed unsigned label": func(d *Descriptor) { d.Labels[0].Value = []byte(`"y"`) },
		"new unsigned label": func(d *Descriptor) {
			d.Sources[0].Labels = append(d.Sources[0].Labels, Label{Name: "new"})
		},
		"changed access":                          func(d *Descriptor) { d.Resources[0].Access.LocalReference = hello },
		"removed repository contexts":             func(d *Descriptor) { d.RepositoryContexts = nil },
		"added signature":                         func(d *Descriptor) { d.Signatures = []Signature{{Name: "s"}} },
		"creation time in another time zone":      func(d *Descriptor) { d.CreationTime = "2026-01-31T12:00:00Z" },
		"removed digest, resource without access": func(d *Descriptor) { d.Resources[1].Digest = nil },
	} {
		t.Run(name, func(t *testing.T) { compare(t, change, true) })
	}
	for name, change := range map[string]func(*Descriptor){
		"changed name":                         func(d *Descriptor) { d.Name += "x" },
		"changed signed label":                 func(d *Descriptor) { d.Labels[1].Value = []byte("1") },
		"label that becomes signed":            func(d *Descriptor) { d.Labels[0].Signing = true },
		"changed digest":                       func(d *Descriptor) { d.Resources[0].Digest.Value = "00" },
		"hash algorithm with another spelling": func(d *Descriptor) { d.Resources[0].Digest.HashAlgorithm = "SHA-256" },
		"removed extra identity":               func(d *Descriptor) { d.Resources[1].ExtraIdentity = nil },
		"changed reference":                    func(d *Descriptor) { d.References[0].Component += "x" },
		"changed creation time":                func(d *Descriptor) { d.CreationTime = "2026-01-31T12:00:01Z" },
		"changed order of resources": func(d *Descriptor) {
			d.Resources[0], d.Resources[3] = d.Resources[3], d.Resources[0]
		},
	} {
		t.Run(name, func(t *testing.T) { compare(t, change, false) })
	}
}

// compare checks the digests of a descriptor before and after a change. If same is true, the change must leave all
// digests unchanged. Otherwise, it must change all of them.
func compare(t *testing.T, change func(*Descriptor), same bool) {
	t.Helper()
	changed := scaler(t)
	change(&changed)
	for _, normalisation := range normalisations {
		before, err := DigestOf(scaler(t), normalisation, "SHA-256")
		if err != nil {
			t.Fatal(err)
		}
		after, err := DigestOf(changed, normalisation, "SHA-256")
		if err != nil {
			t.Fatal(err)
		}
		if (before == after) != same {
			t.Errorf("%s: got digest %s before and %s after the change, want equal: %t",
				normalisation, before, after, same)
		}
	}
}

func TestInvalidDescriptorsAreNotNormalized(t *testing.T) {
	late := scaler(t)
	late.CreationTime = "yesterday"
	huge := scaler(t)
	huge.Labels[1].Value = []byte("1e999")
	for name, c := range map[string]struct {
		d                   Descriptor
		normalisation, hash string
		want                string
	}{
		"unknown normalization": {
			scaler(t), "jsonNormalisation/v5", "SHA-256", `normalization "jsonNormalisation/v5" is not supported`,
		},
		"unknown hash": {
			scaler(t), NormalisationV3, "MD5", `hash algorithm "MD5" is not supported`,
		},
		"invalid creation time":                {late, NormalisationV3, "SHA-256", `creationTime: "yesterday"`},
		"invalid number in a label":            {huge, NormalisationV3, "SHA-256", "1e999"},
		"invalid number in a label, version 1": {huge, NormalisationV1, "SHA-256", "1e999"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := DigestOf(c.d, c.normalisation, c.hash); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The official OCM tool compares all pairs of resources, as slowlyWithVersions does. This takes too long for untrusted
// descriptors, so withVersions uses another algorithm that must have the same result.
func TestAmbiguousResourceIdentitiesIncludeTheVersion(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	identities := []map[string]string{nil, {}, {"os": "linux"}, {"version": "1"}, {"version": "2", "os": "linux"}}
	for range 2_000 {
		resources := make([]Resource, random.IntN(7))
		for i := range resources {
			resources[i].Name = string(rune('a' + random.IntN(2)))
			resources[i].Version = fmt.Sprint(random.IntN(3))
			resources[i].ExtraIdentity = maps.Clone(identities[random.IntN(len(identities))])
		}
		want := slowlyWithVersions(resources)
		got := withVersions(resources)
		for i := range got {
			if identityText(got[i].Element) != identityText(want[i].Element) {
				t.Fatalf("of %v: got %v, want %v", resources, got, want)
			}
		}
	}
}

func slowlyWithVersions(resources []Resource) []Resource {
	out := append([]Resource(nil), resources...)
	for i := range out {
		for j := range out {
			if i == j || out[i].Name != out[j].Name || !maps.Equal(out[i].ExtraIdentity, out[j].ExtraIdentity) {
				continue
			}
			identity := map[string]string{}
			maps.Copy(identity, out[i].ExtraIdentity)
			identity["version"] = out[i].Version
			out[i].ExtraIdentity = identity
			break
		}
	}
	return out
}

func FuzzNormalise(f *testing.F) {
	data, err := os.ReadFile(filepath.Join("testdata", "scaler.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(good +
		local("raw", ", labels: [{name: a, value: \"\\x7f\\u0085\\ufeff\\U0001f600<\", signing: true}]")))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Decode(data)
		if err != nil {
			return
		}
		document, err := d.Document()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(document)
		if err != nil {
			return
		}
		if again.document = d.document; !reflect.DeepEqual(again, d) {
			t.Fatalf("%s\nchanged from\n%+v\nto\n%+v", document, d, again)
		}
		for _, normalisation := range normalisations {
			one, err := Normalize(d, normalisation)
			two, errTwo := Normalize(again, normalisation)
			if string(one) != string(two) || (err == nil) != (errTwo == nil) {
				t.Errorf("got\n%s\nand\n%s\nerrors %v and %v, want equal results", one, two, err, errTwo)
			}
		}
	})
}

func BenchmarkDecodeAndNormalise(b *testing.B) {
	data, err := os.ReadFile(filepath.Join("testdata", "scaler.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		d, err := Decode(data)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Normalize(d, NormalisationV3); err != nil {
			b.Fatal(err)
		}
	}
}
