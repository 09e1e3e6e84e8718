package layout

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeMake notes its targets; $FAIL fails. test-kind goes on for longer than the steps beside it. If it fails, it ends before the first of
// them; with $ENDLESS it goes on until it is ended, and the step that fails does so after it has begun.
const fakeMake = `#!/usr/bin/env bash
echo "make $*" >>calls
if [ "$1" = test-kind ]; then
  trap 'sleep .3; echo "kind taken down" >>calls; exit 130' INT
  echo "$PPID" >kind.new && mv kind.new kind
  echo "first of kind"
  while [ "$FAIL" != test-kind ] && { [ -n "$ENDLESS" ] || ! grep -q test-cosign calls; }; do sleep .05; done
  sleep .3
  echo "second of kind"
  echo "kind done" >>calls
elif [ "$1" = test-race ]; then
  while [ -z "$NO_DOCKER" ] && [ ! -e kind ]; do sleep .05; done
  if [ "$FAIL" = test-kind ]; then
    until [ -e kind ] && ! kill -0 "$(cat kind)" 2>/dev/null; do sleep .05; done
  fi
fi
if [ "$1" = "$FAIL" ]; then exit 7; fi
`

const fakeDocker = `#!/usr/bin/env bash
echo "docker $1" >>calls
if [ -n "$NO_DOCKER" ]; then exit 1; fi
if [ "$1" = start ]; then echo started; fi
`

// runCI runs .ci/run with steps that do nothing, and returns its output, what it called in which order, and its code.
func runCI(t *testing.T, env ...string) (output string, calls []string, code int) {
	t.Helper()
	dir := t.TempDir()
	programs := filepath.Join(dir, "programs")
	for path, content := range map[string]string{
		".ci/run": readFile(t, ".ci", "run"), "hack/offline/kind-node/dockerd": fakeDocker,
		"programs/make": fakeMake, "programs/go": "#!/bin/sh\necho node-image\n",
	} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(dir, ".ci", "run"))
	cmd.Env = append(os.Environ(), append([]string{"PATH=" + programs + ":" + os.Getenv("PATH"), "FAIL=", "ENDLESS=", "NO_DOCKER="}, env...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	noted, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	return said.String(), strings.Split(strings.TrimSpace(string(noted)), "\n"), cmd.ProcessState.ExitCode()
}

func TestCIPrintsTheStepBesideOthersWhole(t *testing.T) {
	output, calls, code := runCI(t)
	if code != 0 || !strings.Contains(output, "== everything passed") {
		t.Errorf("with code %d:\n%s", code, output)
	}
	whole := "== env KIND_NODE_IMAGE=node-image make test-kind\nfirst of kind\nsecond of kind\n== env KIND_NODE_IMAGE=node-image make test-kind passed after"
	if strings.Count(output, whole) != 1 {
		t.Errorf("what test-kind said is not once as a whole in\n%s", output)
	}
	if last := calls[len(calls)-1]; last != "docker stop" {
		t.Errorf("the last call is %q", last)
	}
	if kind, tests := slices.Index(calls, "kind done"), slices.Index(calls, "make test RERUNS=1"); kind < 0 || kind > tests {
		t.Errorf("the tests run beside kind or without it: %q", calls)
	}
}

func TestCIEndsWithTheStepThatFails(t *testing.T) {
	for _, target := range []string{"lint", "test-race", "test-cosign", "test-kind", "test", "chaos"} {
		output, calls, code := runCI(t, "FAIL="+target)
		// The step beside it may be ended, which it says after what failed.
		_, failed, _ := strings.Cut(output, " FAILED after")
		before := strings.TrimSuffix(output, " FAILED after"+failed)
		step := before[strings.LastIndex(before, "make "):]
		if code != 7 || step != "make "+target && !strings.HasPrefix(step, "make "+target+" ") || strings.Contains(output, "everything passed") {
			t.Errorf("%s fails: code %d\n%s", target, code, output)
		}
		if target == "test-kind" && slices.Contains(calls, "make test-ui") {
			t.Errorf("it goes on after test-kind has failed: %q", calls)
		}
		if slices.Contains(calls, "docker start") && calls[len(calls)-1] != "docker stop" {
			t.Errorf("%s fails: Docker is left: %q", target, calls)
		}
	}
}

func TestCITakesDownTheStepBesideTheOneThatFails(t *testing.T) {
	output, calls, code := runCI(t, "FAIL=test-race", "ENDLESS=1")
	if code != 7 || !strings.Contains(output, "== make test-race FAILED after") || !strings.Contains(output, "first of kind") {
		t.Errorf("code %d\n%s", code, output)
	}
	if n := len(calls); n < 2 || !slices.Equal(calls[n-2:], []string{"kind taken down", "docker stop"}) {
		t.Errorf("the clusters were not taken down before Docker: %q", calls)
	}
}

func TestCIGoesOnWithoutDocker(t *testing.T) {
	output, calls, code := runCI(t, "NO_DOCKER=1")
	if code != 0 || !strings.Contains(output, "== make test-kind SKIPPED") || !strings.Contains(output, "== everything passed") {
		t.Errorf("code %d\n%s", code, output)
	}
	if slices.Contains(calls, "make test-kind") || slices.Contains(calls, "docker stop") || !slices.Contains(calls, "make test-cosign") {
		t.Errorf("it called %q", calls)
	}
}
