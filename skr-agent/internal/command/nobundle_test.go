package command

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestErrorListsOtherRuntimesThatHaveABundle(t *testing.T) {
	f := newFleet(t)
	f.publish(time.Now(), f.module("keda", f.release), f.module("nats", f.release)) // publishes to berlin
	for runtime, want := range map[string]string{
		"berln": "the registry has no bundle for runtime berln: did you mean berlin?\n",
		"tokyo": "the registry has no bundle for runtime tokyo, only bundles for berlin\n",
	} {
		code, output := execute("verify", f.at, "--runtime", runtime, "--trust", f.trustFile)
		if code != cli.ExitFailed || !strings.Contains(output, want) || strings.Contains(output, "not found") {
			t.Errorf("%s: got exit code %d with %s, want %d with %s", runtime, code, output, cli.ExitFailed, want)
		}
	}
}

func TestVerifyReadsHostAndPortAsRegistry(t *testing.T) {
	f := newFleet(t)
	code, output := execute("verify", "127.0.0.1:1", "--runtime", "berlin", "--trust", f.trustFile)
	if want := "hint: no registry responds at http://127.0.0.1:1"; code != cli.ExitFailed ||
		!strings.Contains(output, want) {
		t.Errorf("got exit code %d with %s, want %q", code, output, want)
	}
}

func TestVerifyErrorNamesTrustFileOfAnotherFleet(t *testing.T) {
	f, other := newFleet(t), newFleet(t)
	f.publish(time.Now(), f.module("keda", f.release), f.module("nats", f.release))
	code, output := execute("verify", f.at, "--runtime", "berlin", "--trust", other.trustFile)
	if want := "check that --trust " + other.trustFile + " belongs to the bundle's fleet"; code != cli.ExitRefused ||
		!strings.Contains(output, want) {
		t.Errorf("got exit code %d with %s, want %q", code, output, want)
	}
}

func TestErrorLimitsListedRuntimes(t *testing.T) {
	e := &noBundleError{runtime: "elsewhere", cause: store.ErrNotFound}
	if text := e.Error(); text != "the registry has no bundle for runtime elsewhere" ||
		!errors.Is(e, store.ErrNotFound) {
		t.Errorf("got %q without other runtimes, want only the name of the runtime", text)
	}
	for i := range 12 {
		e.otherRuntimes = append(e.otherRuntimes, fmt.Sprintf("runtime-%02d", i))
	}
	if text := e.Error(); !strings.HasSuffix(text, "runtime-09 and 2 more") || strings.Contains(text, "runtime-10") {
		t.Errorf("got %q, want ten runtimes and \"2 more\"", text)
	}
}
