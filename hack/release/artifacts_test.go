package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"
)

// buildConfig contains the tested fields of .goreleaser.yaml and .ko.yaml.
type buildConfig struct {
	Dist   string
	Builds []struct {
		ID, Main, Binary            string
		Env, Flags, Goos, Goarch    []string
		LDFlags                     []string `json:"ldflags"`
		Goamd64, Goarm64, Overrides []any
		Hooks                       any
	}
	Archives []struct {
		IDs          []string `json:"ids"`
		Formats      []string
		NameTemplate string `json:"name_template"`
		Files        []struct{ Src string }
	}
}

func readBuildConfig(t *testing.T, name string) (c buildConfig) {
	t.Helper()
	if err := yaml.Unmarshal(read(t, "../..", name), &c); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

func expanded(t *testing.T, text string, values map[string]any) string {
	t.Helper()
	parsed, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, values); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestGoreleaserBuildsTheArchivesOfARelease(t *testing.T) {
	c := readBuildConfig(t, ".goreleaser.yaml")
	if c.Dist != goreleaserDir {
		t.Errorf("the output folder is %s, want %s", c.Dist, goreleaserDir)
	}
	var got []string
	for _, build := range c.Builds {
		values := map[string]any{"Version": version, "Binary": build.Binary}
		if build.Main != "./"+build.ID || build.Binary != build.ID {
			t.Errorf("build %s builds %s from %s", build.ID, build.Binary, build.Main)
		}
		if !slices.Equal(build.Env, []string{"CGO_ENABLED=0"}) || !slices.Equal(build.Flags, []string{"-trimpath"}) {
			t.Errorf("build %s has env %v and flags %v", build.ID, build.Env, build.Flags)
		}
		if flags := expanded(t, strings.Join(build.LDFlags, " "), values); flags != ldflags(version) {
			t.Errorf("build %s has ldflags %q, want %q", build.ID, flags, ldflags(version))
		}
		if len(build.Goamd64)+len(build.Goarm64)+len(build.Overrides) > 0 || build.Hooks != nil {
			t.Errorf("build %s has other settings than hack/release", build.ID)
		}
		for _, archive := range c.Archives {
			if !slices.Contains(archive.IDs, build.ID) {
				continue
			}
			if len(archive.Files) != 1 || archive.Files[0].Src != "LICENSE" {
				t.Errorf("the archive of %s has files %v, want LICENSE", build.ID, archive.Files)
			}
			for _, values["Os"] = range build.Goos {
				for _, values["Arch"] = range build.Goarch {
					for _, format := range archive.Formats {
						got = append(got, expanded(t, archive.NameTemplate, values)+"."+format)
					}
				}
			}
		}
	}
	platforms, err := parsePlatforms(supportedPlatforms)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range contents(version, platforms, true) {
		for _, program := range programs {
			if strings.HasPrefix(name, program+"_") && strings.HasSuffix(name, ".tar.gz") {
				want = append(want, name)
			}
		}
	}
	slices.Sort(got)
	if len(want) != 8 || !slices.Equal(got, want) {
		t.Errorf("goreleaser builds\n%q\nbut a release has\n%q", got, want)
	}
}

func TestKoBuildsTheImagesOfARelease(t *testing.T) {
	c := readBuildConfig(t, ".ko.yaml")
	var got []string
	for _, build := range c.Builds {
		got = append(got, build.ID)
		if build.Main != "./"+build.ID || len(build.Flags)+len(build.Env) > 0 {
			t.Errorf("build %s builds %s with flags %v and env %v", build.ID, build.Main, build.Flags, build.Env)
		}
		values := map[string]any{"Env": map[string]string{"VERSION": version}}
		if flags := expanded(t, strings.Join(build.LDFlags, " "), values); flags != ldflags(version) {
			t.Errorf("build %s has ldflags %q, want %q", build.ID, flags, ldflags(version))
		}
	}
	if !slices.Equal(got, programs) {
		t.Errorf("ko builds %v, want %v", got, programs)
	}
}

func TestReleaseWithMissingOrAdditionalFilesFails(t *testing.T) {
	r := &release{version: version, dir: t.TempDir(), platforms: []platform{{"linux", "amd64"}}}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range contents(version, r.platforms, false)[1:] {
		write(name)
	}
	missing := contents(version, r.platforms, false)[0]
	if err := r.checkContents(); err == nil || !strings.HasSuffix(err.Error(), ": missing "+missing) {
		t.Errorf("got error %v, want missing %s", err, missing)
	}
	write(missing)
	if err := r.checkContents(); err != nil {
		t.Error(err)
	}
	write("notes.txt")
	if err := r.checkContents(); err == nil || !strings.HasSuffix(err.Error(), ": unexpected notes.txt") {
		t.Errorf("got error %v, want unexpected notes.txt", err)
	}
}

// The table in the guide names each file of a release.
func TestGuideListsTheFilesOfARelease(t *testing.T) {
	guide := string(read(t, "../../docs/guides", "verify-a-release.md"))
	for _, name := range contents("VERSION", []platform{{"OS", "ARCH"}}, true) {
		// The guide abbreviates the file names of the second program.
		listed := name
		if strings.HasPrefix(name, "skr-agent_VERSION_OS") {
			listed = "skr-agent_…"
		}
		if !strings.Contains(guide, "`"+listed+"`") {
			t.Errorf("the guide does not list %s", name)
		}
	}
}
