package kind

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"
)

// A script replaces docker in $PATH, because the test must not depend on the machine's network access.
func TestPublishedNodeImageIsUsedIfAvailable(t *testing.T) {
	const built = ownNodeImage + "v1"
	for _, c := range []struct {
		name, named  string
		present      bool
		pulls        bool
		want, called string
	}{
		{name: "image from the environment", named: "mine", want: "mine"},
		{name: "image is present in Docker", present: true, pulls: true, want: defaults.Image, called: "image inspect"},
		{
			name: "image can be pulled, and a built image exists", pulls: true, want: defaults.Image,
			called: "image inspect,pull --quiet",
		},
		{name: "image cannot be pulled", want: built, called: "image inspect,pull --quiet,build"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			calls := filepath.Join(dir, "calls")
			script(t, filepath.Join(dir, "docker"), `echo "$1 $2" >>`+calls+`; case "$1 $3" in "image `+defaults.Image+
				`") `+exit(c.present)+`;; pull*) `+exit(c.pulls)+`;; esac`)
			script(t, filepath.Join(dir, "hack", "offline", "kind-node", "build"), `echo build >>`+calls+`; echo `+
				built)
			t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
			t.Setenv(EnvNodeImage, c.named)
			got, err := NodeImage(t.Context(), dir, t.Output())
			if err != nil || got != c.want {
				t.Errorf("got image %q and error %v, want %q", got, err, c.want)
			}
			called, err := os.ReadFile(calls)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Split(strings.TrimSpace(string(called)), "\n"), ","); got != c.called {
				t.Errorf("called programs %q, want %q", got, c.called)
			}
		})
	}
}

func exit(well bool) string {
	if well {
		return "exit 0"
	}
	return "exit 1"
}

func script(t *testing.T, path, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
