package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry"

	"github.com/kyma-pull/kyma-pull/hack/suite"
)

const version = "0.9.1-rc.1"

// buildTestRelease builds a release from HEAD in a temporary clone, and returns its folder.
func buildTestRelease(t *testing.T, key string) string {
	t.Helper()
	clone, dir := filepath.Join(t.TempDir(), "clone"), filepath.Join(t.TempDir(), "dist")
	ran(t, ".", "git", "clone", "--quiet", "--no-hardlinks", "../..", clone)
	ran(t, clone, "go", append([]string{"run", "./hack/release", "-version", "v" + version, "-output", dir, "-key",
		key}, buildFlags()...)...)
	return dir
}

// buildFlags returns the flags for a build with the tools in $KYMA_PULL_RELEASE_TOOLS, or for a build for one platform.
func buildFlags() []string {
	if tools := os.Getenv("KYMA_PULL_RELEASE_TOOLS"); tools != "" {
		return []string{"-tools", tools}
	}
	return []string{"-platforms", "linux/" + runtime.GOARCH}
}

func ran(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

func TestReleaseIsReproducibleAndVerifiedByStockTools(t *testing.T) {
	suite.Long(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, public := filepath.Join(t.TempDir(), "release.key"), filepath.Join(t.TempDir(), "release.pub")
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, private, "PRIVATE KEY", der)
	if der, err = x509.MarshalPKIXPublicKey(&key.PublicKey); err != nil {
		t.Fatal(err)
	}
	write(t, public, "PUBLIC KEY", der)
	dir := buildTestRelease(t, private)
	verify, provenance, copyAll, rebuild := guide(t)

	t.Run("sha256sum and openssl verify the release", func(t *testing.T) {
		downloaded := copyFolder(t, dir)
		if err := os.Rename(public, filepath.Join(downloaded, "release.pub")); err != nil {
			t.Fatal(err)
		}
		ran(t, downloaded, "bash", "-euo", "pipefail", "-c", verify)
		commit := strings.TrimSpace(ran(t, "../..", "git", "rev-parse", "HEAD"))
		if printed := ran(t, downloaded, "bash", "-euo", "pipefail", "-c", provenance); !strings.Contains(printed,
			"Verified OK") || !strings.Contains(printed, commit) {
			t.Errorf("got output of the provenance script without \"Verified OK\" or the commit:\n%s", printed)
		}
		other := strings.Replace(provenance, "openssl", "sed -i s/"+commit+"/"+strings.Repeat("0", len(commit))+
			"/ provenance.signed\nopenssl", 1)
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", other)
		cmd.Dir = downloaded
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("got no error for the provenance of another commit; output:\n%s", out)
		}
	})
	t.Run("stock tools copy and read the release", func(t *testing.T) {
		for _, tool := range []string{"jq", "tar"} {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skip(err)
			}
		}
		t.Setenv("PATH", tools(t)+":"+os.Getenv("PATH"))
		host := newRegistry(t)
		script := strings.NewReplacer("registry.example", host, "helm show chart",
			"helm show chart --plain-http", "0.2.0", version).Replace(copyAll)
		if printed := ran(t, dir, "bash", "-euo", "pipefail", "-c", script); !strings.Contains(printed,
			"appVersion: "+version) {
			t.Errorf("got output of the copy script without appVersion %s:\n%s", version, printed)
		}
		for _, program := range programs {
			if types := referrerTypes(t, host+"/kyma-pull/"+program, version); !slices.Equal(types,
				[]string{mediaTypeBill + " "}) {
				t.Errorf("%s: got referrers %q, want the bill of materials", program, types)
			}
		}
	})
	t.Run("build from the guide is identical", func(t *testing.T) {
		beside := t.TempDir()
		ran(t, ".", "git", "clone", "--quiet", "--no-hardlinks", "../..", filepath.Join(beside, "clone"))
		if err := os.WriteFile(filepath.Join(beside, checksumsFile), read(t, dir, checksumsFile), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("FLAGS", strings.Join(buildFlags(), " "))
		script := strings.NewReplacer("COMMIT",
			"--quiet "+strings.TrimSpace(ran(t, "../..", "git", "rev-parse", "HEAD")), "0.2.0", version).
			Replace(rebuild)
		ran(t, filepath.Join(beside, "clone"), "bash", "-euo", "pipefail", "-c", script)
	})
	t.Run("provenance contains every file", func(t *testing.T) {
		var envelope dsse.Envelope
		if err := json.Unmarshal(read(t, dir, "provenance.intoto.jsonl"), &envelope); err != nil {
			t.Fatal(err)
		}
		verifier, err := dsse.NewEnvelopeVerifier(verifierOf{&key.PublicKey, signerOf{key}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verifier.Verify(t.Context(), &envelope); err != nil {
			t.Fatal(err)
		}
		payload, err := envelope.DecodeB64Payload()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(read(t, dir, checksumsFile))) {
			if sum, _, _ := strings.Cut(line, " "); !strings.Contains(string(payload), sum) {
				t.Errorf("the provenance does not contain %s", line)
			}
		}
	})
	t.Run("program prints its version", func(t *testing.T) {
		out := t.TempDir()
		ran(t, out, "tar", "-xzf", filepath.Join(dir, "kcp-publisher_"+version+"_linux_"+runtime.GOARCH+".tar.gz"))
		if printed := ran(t, out, "./kcp-publisher", "--version"); !strings.Contains(printed, version) {
			t.Errorf("got output %s of kcp-publisher --version, want version %s", printed, version)
		}
	})
	t.Run("helm reads the charts", func(t *testing.T) {
		for _, name := range programs {
			helm := []string{"tool", "-modfile=hack/helm/go.mod", "helm"}
			chart := filepath.Join(dir, name+"-"+version+".tgz")
			if printed := ran(
				t,
				"../..",
				"go",
				append(helm, "show", "chart", chart)...,
			); !strings.Contains(printed, "appVersion: "+version) {
				t.Errorf("got output of helm show chart without appVersion %s:\n%s", version, printed)
			}
			ran(t, "../..", "go", append(helm, "lint", "--quiet", chart)...)
		}
	})
	t.Run("charts and manifests contain image digests", func(t *testing.T) {
		layout, err := oci.NewFromTar(t.Context(), filepath.Join(dir, layoutFile(version)))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range programs {
			built, err := layout.Resolve(t.Context(), name+":"+version)
			if err != nil {
				t.Fatal(err)
			}
			image := "ghcr.io/kyma-pull/" + name + "@" + built.Digest.String()
			if text := string(read(t, dir, name+"-install_"+version+".yaml")); !strings.Contains(text,
				fmt.Sprintf("image: %q\n", image)) {
				t.Errorf("%s: the manifest does not contain image %s", name, image)
			}
			referrers, err := registry.Referrers(t.Context(), layout, built, mediaTypeBill)
			if err != nil || len(referrers) != 1 {
				t.Errorf("%s: got %d bills of materials of the image and error %v, want 1", name, len(referrers), err)
			}
		}
	})
	t.Run("images and charts have attestations", func(t *testing.T) {
		r := &release{version: version, dir: dir}
		all, err := r.readAttestations()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, a := range all {
			got[a.predicateType]++
		}
		want := map[string]int{predicateSign: 4, predicateBill: 2, predicateSLSA: 2}
		if !maps.Equal(got, want) {
			t.Errorf("got attestations by type %v, want %v", got, want)
		}
	})
	t.Run("package manifests contain checksums of archives", func(t *testing.T) {
		sums := string(read(t, dir, checksumsFile))
		for _, file := range []string{"kcp-publisher.rb", "skr-agent.rb", "kyma-pull.yaml"} {
			found := regexp.MustCompile("[0-9a-f]{64}").FindAllString(string(read(t, dir, file)), -1)
			unknown := slices.DeleteFunc(slices.Clone(found), func(sum string) bool {
				return strings.Contains(sums, sum)
			})
			if len(found) == 0 || len(unknown) > 0 {
				t.Errorf("%s: got checksums %v, want checksums in %s", file, found, checksumsFile)
			}
		}
	})
	t.Run("layout contains images and charts by name", func(t *testing.T) {
		layout, err := oci.NewFromTar(t.Context(), filepath.Join(dir, layoutFile(version)))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"kcp-publisher", "skr-agent", "charts/kcp-publisher", "charts/skr-agent"} {
			if _, err := layout.Resolve(t.Context(), name+":"+version); err != nil {
				t.Errorf("resolve %s:%s in the layout: %v", name, version, err)
			}
		}
	})
	t.Run("bill of materials lists linked modules", func(t *testing.T) {
		file, err := os.Open(filepath.Join(dir, "skr-agent_"+version+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var bom cyclonedx.BOM
		if err := cyclonedx.NewBOMDecoder(file, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool {
			return c.Name == "oras.land/oras-go/v2" && strings.HasPrefix(c.Version, "v2.")
		}) {
			t.Errorf("got %d components without oras.land/oras-go/v2", len(*bom.Components))
		}
	})
}

type verifierOf struct {
	key *ecdsa.PublicKey
	signerOf
}

func (v verifierOf) Public() crypto.PublicKey { return v.key }

func (v verifierOf) Verify(_ context.Context, data, signature []byte) error {
	digest := sha256.Sum256(data)
	if !ecdsa.VerifyASN1(v.key, digest[:], signature) {
		return os.ErrInvalid
	}
	return nil
}

func write(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestInvalidReleaseFlagsAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"flags without a version": {nil, `-version "" is not a semantic version`},
		"unsupported platform": {
			[]string{"-version", "1.0.0", "-platforms", "plan9/amd64"},
			`-platforms: unsupported platform "plan9/amd64"`,
		},
		"key file without a key": {
			[]string{"-version", "1.0.0", "-key", "main.go"}, "-key: main.go: no PEM block found",
		},
		"platforms with tools": {
			[]string{"-version", "1.0.0", "-tools", "bin", "-platforms", "linux/amd64"},
			"-platforms cannot be combined with -tools",
		},
		"missing key file":           {[]string{"-version", "1.0.0", "-key", "nowhere"}, "-key: open nowhere"},
		"version that is not semver": {[]string{"-version", "latest"}, `-version "latest"`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), c.args); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q in it", err, c.want)
			}
		})
	}
}
