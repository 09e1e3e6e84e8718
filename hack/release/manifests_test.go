package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"sigs.k8s.io/yaml"
)

// unbuiltRelease returns a release for two platforms without built programs and images.
func unbuiltRelease(t *testing.T) *release {
	t.Helper()
	r := &release{
		version: "1.2.3", images: "registry.example/kyma-pull", dir: t.TempDir(),
		commit:    commit{"commit", time.Unix(1, 0)},
		platforms: []platform{{"linux", "amd64"}, {"darwin", "arm64"}},
		built: map[string]ocispec.Descriptor{
			"kcp-publisher": {Digest: digest.FromString("a")},
			"skr-agent":     {Digest: digest.FromString("b")},
		},
	}
	t.Chdir("../..")
	return r
}

// labeled contains the metadata of an object or a pod template.
type labeled struct {
	Name   string
	Labels map[string]string
}

func TestInstallManifestsOmitOnlySecrets(t *testing.T) {
	r := unbuiltRelease(t)
	if err := r.writeManifests(); err != nil {
		t.Fatal(err)
	}
	for program, namespace := range map[string]string{"kcp-publisher": "kcp-system", "skr-agent": "kyma-system"} {
		text := string(read(t, r.dir, program+"-install_1.2.3.yaml"))
		var kinds []string
		managed := 0
		for document := range strings.SplitSeq(text, "\n---\n") {
			var o struct {
				Kind     string
				Metadata labeled
				Spec     struct{ Template struct{ Metadata labeled } }
			}
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				t.Fatalf("%s: parse document: %v\n%s", program, err, document)
			}
			for _, of := range []labeled{o.Metadata, o.Spec.Template.Metadata} {
				if by := of.Labels["app.kubernetes.io/managed-by"]; by != "" && by != "kubectl" {
					t.Errorf("%s: %s %s has the label managed-by: %s", program, o.Kind, o.Metadata.Name, by)
				} else if by != "" {
					managed++
				}
			}
			if o.Kind != "" {
				kinds = append(kinds, o.Kind+" "+o.Metadata.Name)
			}
		}
		if len(kinds) < 8 || kinds[0] != "Namespace "+namespace ||
			!strings.HasPrefix(kinds[1], "CustomResourceDefinition ") {
			t.Errorf("%s: got objects %v, want the namespace, the CRDs and at least 6 other objects", program, kinds)
		}
		for _, kind := range kinds {
			if strings.HasPrefix(kind, "Secret ") {
				t.Errorf("%s: the manifest contains %s, want no Secrets", program, kind)
			}
		}
		want := fmt.Sprintf("image: %q", "registry.example/kyma-pull/"+program+"@"+r.built[program].Digest.String())
		if !strings.Contains(text, want) {
			t.Errorf("%s: the manifest does not contain %q", program, want)
		}
		if managed < 6 {
			t.Errorf("%s: %d objects have the label managed-by: kubectl, want at least 6", program, managed)
		}
	}
	if _, err := os.Stat(filepath.Join(r.dir, "kustomize_1.2.3.tar.gz")); err != nil {
		t.Error(err)
	}
}

func TestPackageManifestsListEveryPlatform(t *testing.T) {
	r := unbuiltRelease(t)
	for _, program := range programs {
		for _, p := range r.platforms {
			name := program + "_" + r.version + "_" + p.os + "_" + p.arch + ".tar.gz"
			if err := os.WriteFile(filepath.Join(r.dir, name), []byte(name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.writePackages(); err != nil {
		t.Fatal(err)
	}
	for file, wants := range map[string][]string{
		"kcp-publisher.rb": {
			"class KcpPublisher < Formula",
			"on_macos do\n    on_arm do",
			"on_linux do\n    on_intel do",
			`bin.install "kcp-publisher"`,
			"releases/download/v1.2.3/kcp-publisher_1.2.3_darwin_arm64.tar.gz",
		},
		"skr-agent.rb": {"class SkrAgent < Formula", "skr-agent_1.2.3_linux_amd64.tar.gz"},
		"kyma-pull.yaml": {
			"version: v1.2.3",
			"os: darwin",
			"arch: amd64",
			"kcp-publisher_1.2.3_linux_amd64.tar.gz",
		},
	} {
		text := string(read(t, r.dir, file))
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not contain %q:\n%s", file, want, text)
			}
		}
		for line := range strings.Lines(text) {
			if name, url, found := strings.Cut(line, downloads+"1.2.3/"); found {
				sum := digest.FromString(strings.Trim(url, "\"\n")).Encoded()
				if !strings.Contains(text, sum) {
					t.Errorf("%s does not contain the checksum of %s", file, name+url)
				}
			}
		}
	}
	var plugin map[string]any
	if err := yaml.UnmarshalStrict(read(t, r.dir, "kyma-pull.yaml"), &plugin); err != nil {
		t.Error(err)
	}
}
