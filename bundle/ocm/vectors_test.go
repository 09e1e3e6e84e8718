package ocm

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func vector(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(realworld, filepath.FromSlash(name)))
	if err != nil {
		t.Skip("shared/realworld not found next to this checkout")
	}
	return data
}

func decoded(t *testing.T, data []byte) Descriptor {
	t.Helper()
	d, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func fromArchive(t *testing.T, name string) map[string]Descriptor {
	t.Helper()
	vector(t, name+"/artifact-index.json")
	found := map[string]Descriptor{}
	blobs, err := filepath.Glob(filepath.Join(realworld, filepath.FromSlash(name), "blobs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range blobs {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := FromTar(data); err == nil {
			d := decoded(t, text)
			key := d.Name + ":" + d.Version
			if len(d.Signatures) >= len(found[key].Signatures) {
				found[key] = d
			}
		}
	}
	return found
}

// digested returns the descriptor with reference digests that use the given normalization.
func digested(t *testing.T, d Descriptor, all map[string]Descriptor, normalisation string) Descriptor {
	t.Helper()
	for i, r := range d.References {
		value, err := DigestOf(all[r.Component+":"+r.Version], normalisation, "SHA-256")
		if err != nil {
			t.Fatal(err)
		}
		d.References[i].Digest = &Digest{HashAlgorithm: "SHA-256", NormalisationAlgorithm: normalisation, Value: value}
	}
	return d
}

func TestNormalizationMatchesTheOfficialOCMTool(t *testing.T) {
	for version, normalisation := range map[string]string{"v1": NormalisationV1, "v2": NormalisationV2,
		"v3": NormalisationV3} {
		t.Run(normalisation, func(t *testing.T) {
			want := vector(t, "ocm-vectors/top.norm."+version)
			all := fromArchive(t, "ocm-vectors/ctf_signed_rsa15_and_plain_pss")
			got, err := Normalize(digested(t, all["kyma-project.io/module/top:1.2.3"], all, normalisation),
				normalisation)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != strings.TrimRight(string(want), "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	t.Run("component of the OCM tool", func(t *testing.T) {
		want := vector(t, "ocm-vectors/ocmcli_0.27_v3_expected.json")
		for _, normalisation := range []string{NormalisationV3, NormalisationV4} {
			got, err := Normalize(decoded(t, vector(t, "ocm-vectors/ocmcli_0.27_input.yaml")), normalisation)
			if err != nil || string(got) != strings.TrimRight(string(want), "\n") {
				t.Errorf("%v: got\n%s\nwant\n%s", err, got, want)
			}
		}
	})
}

func TestSignaturesFromTheOfficialOCMToolAreValid(t *testing.T) {
	plain := vector(t, "ocm-vectors/rsa_plain.pub")
	root := vector(t, "ocm-vectors/root.cert")
	for _, c := range []struct{ archive, component, key string }{
		{"ocm-vectors/ctf_signed_rsa15_and_plain_pss", "kyma-project.io/module/top:1.2.3", string(plain)},
		{"ocm-vectors/ctf_signed_rsa15_pem_chain", "kyma-project.io/module/top:1.2.3", string(root)},
		{
			"ctf/podinfo-6.14.1-signed", "kyma-project.io/module/podinfo:6.14.1",
			string(vector(t, "ctf/podinfo-6.14.1-signed.pub.pem")),
		},
	} {
		t.Run(c.archive, func(t *testing.T) {
			trust, err := ParseTrust([]byte(c.key))
			if err != nil {
				t.Fatal(err)
			}
			d := fromArchive(t, c.archive)[c.component]
			if len(d.Signatures) == 0 {
				t.Fatal("got a descriptor without signatures, want at least one")
			}
			now := time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)
			for _, s := range d.Signatures {
				if s.MediaType == mediaTypePEM {
					_, chain, err := decodePEM(s)
					if err != nil {
						t.Fatal(err)
					}
					now, trust.Subject = chain[0].NotBefore.Add(time.Minute), chain[0].Subject.CommonName
					if err := d.CheckSignature(s, trust, chain[0].NotAfter.Add(time.Minute)); err == nil {
						t.Error("expired certificate: got no error, want an error")
					}
				}
				if err := d.CheckSignature(s, trust, now); err != nil {
					t.Error(err)
				}
			}
			d.Resources[0].Digest.Value = strings.Repeat("0", 64)
			if err := d.CheckSignature(d.Signatures[0], trust, now); err == nil ||
				!strings.Contains(err.Error(), "is for another descriptor") {
				t.Errorf("changed descriptor: got error %v, want an error about another descriptor", err)
			}
		})
	}
}

func TestChartFromTheOfficialOCMToolIsAnArtifactSet(t *testing.T) {
	const chart = "ctf/podinfo-6.14.1-signed/blobs/sha256.969afa22ed752325500403982491ab5c89ea7241b06c6bc1c7e60b5004330231"
	data := vector(t, chart)
	set, err := OpenArtifactSet(data)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := set.Blob(set.Main.Digest)
	if err != nil || !json.Valid(manifest) {
		t.Errorf("got manifest %s, error %v, want JSON", manifest, err)
	}
	d := fromArchive(t, "ctf/podinfo-6.14.1-signed")["kyma-project.io/module/podinfo:6.14.1"]
	podinfo, _ := d.Resource("podinfo")
	config, _ := d.Resource("config")
	if err := CheckContent(podinfo, data); err != nil {
		t.Error(err)
	}
	if err := CheckContent(config, data); err == nil {
		t.Error("the chart was accepted as content of another resource, want an error")
	}
	config.Digest = nil
	if err := CheckContent(config, data); !errors.Is(err, ErrNotCovered) {
		t.Errorf("without a digest: got error %v, want ErrNotCovered", err)
	}
}
