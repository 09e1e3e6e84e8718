package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/hack/suite"
)

const modulePath = "github.com/kyma-pull/kyma-pull"

// The test serves HEAD as a module proxy and runs go install with that proxy.
func TestProgramsCanBeInstalledWithGoInstall(t *testing.T) {
	suite.Long(t)
	t.Setenv("TZ", "UTC")
	// The version includes the commit, so that Go's module cache never returns another commit's content.
	at := "v0.0.0-" +
		strings.TrimSpace(ran(t, ".", "git", "-c", "core.abbrev=12", "log", "-1", "--date=format-local:%Y%m%d%H%M%S",
			"--format=%cd-%h"))
	proxy := filepath.Join(t.TempDir(), "proxy")
	folder := filepath.Join(proxy, modulePath, "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	top := strings.TrimSpace(ran(t, ".", "git", "rev-parse", "--show-toplevel"))
	archive := []string{
		"archive",
		"--format=zip",
		"--prefix=" + modulePath + "@" + at + "/",
		"-o",
		filepath.Join(folder, at+".zip"),
		"HEAD",
		".",
	}
	for file := range strings.Lines(ran(t, top, "git", "ls-tree", "-r", "--name-only", "HEAD")) {
		// A subfolder with its own go.mod is not part of this module.
		if nested, ok := strings.CutSuffix(strings.TrimSpace(file), "/go.mod"); ok {
			archive = append(archive, ":(exclude)"+nested)
		}
	}
	ran(t, top, "git", archive...)
	info := `{"Version":"` + at + `"}`
	for name, text := range map[string]string{
		at + ".mod":  ran(t, top, "git", "show", "HEAD:go.mod"),
		at + ".info": info,
		"list":       "",
		"../@latest": info,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := t.TempDir()
	t.Setenv("GOPROXY", "file://"+proxy+","+strings.TrimSpace(ran(t, ".", "go", "env", "GOPROXY")))
	t.Setenv("GONOSUMDB", modulePath)
	t.Setenv("GOBIN", bin)
	t.Setenv("CGO_ENABLED", "0")
	cache := strings.TrimSpace(ran(t, ".", "go", "env", "GOMODCACHE"))
	t.Cleanup(func() { // no later test needs the downloaded module
		for _, path := range []string{
			filepath.Join(cache, modulePath+"@"+at),
			filepath.Join(cache, "cache", "download", modulePath),
		} {
			if err := os.RemoveAll(path); err != nil {
				t.Error(err)
			}
		}
	})
	ran(t, t.TempDir(), "go", "install", "-modcacherw", "-ldflags=-s -w", modulePath+"/kcp-publisher@"+at,
		modulePath+"/skr-agent@"+at)
	for _, name := range programs {
		if printed := ran(t, bin, "./"+name, "version"); !strings.Contains(printed, "version   "+at) {
			t.Errorf("%s: got output %s of the command version, want version %s", name, printed, at)
		}
	}
}
