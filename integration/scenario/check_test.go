package scenario

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// checked is a line in the JSON output of `kcp-publisher check` or `skr-agent check`.
type checked struct{ Check, Result, Message, Advice string }

// runCheck runs a program's check command and returns the results by name.
func runCheck(t *testing.T, want int, binary string, args ...string) map[string]checked {
	t.Helper()
	output, code := fleet.Run(t.Context(), binary, append([]string{"check", "-o", "json"}, args...)...)
	if code != want {
		t.Fatalf("exit code %d, want %d\n%s", code, want, output)
	}
	var all []checked
	must(t, json.NewDecoder(strings.NewReader(output)).Decode(&all))
	found := map[string]checked{}
	for _, c := range all {
		found[c.Check] = c
		if want == 0 && c.Result == "Failed" {
			t.Errorf("exit code 0 despite the failed check %+v", c)
		}
	}
	return found
}

func findings(t *testing.T, got map[string]checked, want map[string][2]string) {
	t.Helper()
	for check, w := range want {
		if c := got[check]; c.Result != w[0] || !strings.Contains(c.Message, w[1]) {
			t.Errorf("check %s: got %+v, want %s with %q", check, c, w[0], w[1])
		}
	}
}

// Each program is checked with several faults at once, and then without faults.
func TestCheckCommandsReportProblemsBeforeProgramsRun(t *testing.T) {
	suite.Long(t) // the short suite runs the tests in internal/preflight
	ctx := t.Context()
	f := newFleet(t, fleet.Options{
		Secured: true, PublisherRights: []string{"publisher.yaml", "metrics.yaml"},
		AgentRights: []string{"agent.yaml", "all-modules.yaml"},
	})
	r := runtimeWith(t, f, "one", map[string]string{"mailer": "1.0.0"})
	ca, config := filepath.Join(f.Dir, "ca.pem"), filepath.Join(f.Dir, "publisher.json")
	publisher := []string{"--kubeconfig", f.PublisherKubeconfig(), "--location", f.Location(), "--registry-ca", ca}

	// The publisher has an old key folder with a world-readable key, no registry password, and missing permissions.
	stale := filepath.Join(t.TempDir(), "keys")
	must(t, os.CopyFS(stale, os.DirFS(f.Keys())))
	must(t, os.Chmod(filepath.Join(stale, "publisher.key"), 0o644))
	changeKeys(t, f, "rotate", "publisher", "--drop-old")
	untilRoot(t, r, 2)
	got := runCheck(t, 1, f.Binaries().Publisher,
		append(publisher, "--keys", stale, "--rights", "publisher,webhooks")...)
	findings(t, got, map[string][2]string{
		"root of trust":                              {"Passed", "version 1"},
		"key publisher":                              {"Passed", "is listed"},
		"file " + stale + "/publisher.key":           {"Failed", "mode 0644"},
		"API server of the control plane":            {"Passed", "system:serviceaccount:kcp-system:kcp-publisher"},
		"clock, against the API server":              {"Passed", ""},
		"rights, publisher":                          {"Passed", ""},
		"rights, webhooks":                           {"Failed", "create secrets in kcp-system"},
		"registry":                                   {"Passed", "is reachable"},
		"read from the registry":                     {"Failed", "credential"},
		"definition " + kymaDefinition + ", v1beta2": {"Passed", ""},
	})
	got = runCheck(t, 1, f.Binaries().Publisher, append(publisher, "--keys", stale, "--registry-config", config)...)
	findings(t, got, map[string][2]string{
		"read from the registry": {
			"Failed", "the registry has root of trust version 2, but the key folder has version 1",
		},
	})

	// The only warning is about the root key, which is in the same folder as the other keys.
	got = runCheck(t, 0, f.Binaries().Publisher,
		append(publisher, "--keys", f.Keys(), "--registry-config", config, "--registry-write")...)
	findings(t, got, map[string][2]string{
		"read from the registry": {"Passed", ""}, "write to the registry": {"Passed", ""},
		"clock, against the registry":                 {"Passed", ""},
		"file " + filepath.Join(f.Keys(), "root.key"): {"Warning", ""},
	})
	output, code := fleet.Run(ctx, f.Binaries().Publisher, append([]string{"check", "--keys", stale}, publisher...)...)
	if code != 1 || !strings.Contains(output, "✓ root of trust: ") ||
		!strings.Contains(output, "✗ read from the registry: ") || !strings.Contains(output, "\n    chmod 600 ") ||
		!strings.Contains(output, "checks failed") {
		t.Errorf("check: unexpected exit code %d or output\n%s", code, output)
	}

	guide := lines(blocksOf(t, "docs/guides/troubleshooting.md", 3)[1])
	s := newPlainShell(t, f.Dir, f.Binaries(), "registry.example/fleet", f.Location(), "--registry-config",
		"--registry-ca ca.pem --registry-config")
	s.env = append(s.env, "KUBECONFIG="+filepath.Join(f.Dir, "kcp.kubeconfig"))
	s.run(guide[0])
	s.env = append(s.env, "KUBECONFIG="+r.Kubeconfig())
	s.run(guide[1])

	// The agent has a damaged enrollment Secret and cannot reach its registry.
	agent := []string{"--kubeconfig", r.AgentKubeconfig(), "--registry-write"}
	got = runCheck(t, 0, f.Binaries().Agent, agent...)
	findings(t, got, map[string][2]string{
		"rights, agent": {"Passed", ""}, "rights, all-modules": {"Passed", ""},
		"key of the agent": {"Passed", "can be read"}, "registry": {"Passed", ""},
		"write reports to the registry": {"Passed", ""}, "bundle": {"Passed", "accepted"},
		"enrollment":    {"Passed", "knows the agent's key"},
		"root of trust": {"Passed", "version 2"}, "definition " + kymaDefinition + ", v1beta2": {"Passed", ""},
	})
	// The ServiceAccount for modules lacks permissions.
	got = runCheck(t, 0, f.Binaries().Agent, append(agent, "--module-service-account", "modules")...)
	findings(t, got, map[string][2]string{
		"rights, module-account":                                   {"Passed", ""},
		"ServiceAccount system:serviceaccount:kyma-system:modules": {"Warning", "has no permissions"},
	})
	if _, asked := got["rights, all-modules"]; asked {
		t.Error("the check requires module rights from the agent")
	}
	must(t, f.Registry.Stop())
	findings(t, runCheck(t, 1, f.Binaries().Agent, agent...),
		map[string][2]string{"registry": {"Failed", f.Location()}})
	must(t, f.Registry.Resume())
	bootstrap := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1beta2.RuntimeNamespace, Name: "skr-agent-bootstrap"},
	}
	must(t, r.API.Delete(ctx, bootstrap))
	findings(t, runCheck(t, 1, f.Binaries().Agent, agent...), map[string][2]string{
		"enrollment": {"Failed", "kcp-publisher enroll"},
	})
	must(t, r.Enroll(ctx))
	runCheck(t, 0, f.Binaries().Agent, agent...)
}

const kymaDefinition = "kymas.operator.kyma-project.io"
