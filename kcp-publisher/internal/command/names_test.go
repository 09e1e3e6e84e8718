package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplanetest"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/status"
)

func TestShellCompletionListsNamesInTheControlPlane(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nowhere")
	for _, args := range []string{"status ", "status --module ", "status --version ", "why ", "why berlin ",
		"reconcile ", "suspend ", "resume ", "revoke ", "rollout show ",
		"logs ", "logs berlin ", "tree ", "rollout status ", "rollout history ", "enroll ", "status --namespace ",
		"status --context ", "rollout list --namespace ",
		"rollout pause ", "rollout undo ", "rollout approve ", "rollout approve web ", "promote ", "promote --from ",
		"promote --to ", "takeover start ", "takeover plan one two "} {
		o := run(append([]string{"__completeNoDesc"}, strings.Split(args, " ")...)...)
		if o.code != 0 || o.out != ":4\n" {
			t.Errorf("%s: got %+v", args, o)
		}
	}
	config := filepath.Join(t.TempDir(), "config")
	const two = `{"apiVersion":"v1","kind":"Config","contexts":[{"name":"kcp","context":{}},{"name":"$(reboot)","context":{}},{"name":"lab","context":{}}]}`
	if err := os.WriteFile(config, []byte(two), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := run("__completeNoDesc", "status", "--kubeconfig", config, "--context", ""); o.out != "kcp\nlab\n:4\n" {
		t.Errorf("completion of --context: got %+v", o)
	}
	server := controlplanetest.New(t, 1).Kubeconfig(t, "default", "kcp-system")
	for _, command := range []string{"status", "suspend", "rollout show"} {
		args := append([]string{"__completeNoDesc"}, strings.Fields(command)...)
		if o := run(append(args, "--kubeconfig", server, "--namespace", "")...); o.out != "default\nkcp-system\n:4\n" {
			t.Errorf("completion of %s --namespace: got %+v", command, o)
		}
	}
	o := run("__completeNoDesc", "status", "-o", "")
	if got := strings.Fields(o.out); !slices.Equal(got, []string{"table", "json", "yaml", "wide", "name", ":4"}) {
		t.Errorf("completion of -o: got %+v", o)
	}
}

func TestHelpGroupsAllCommands(t *testing.T) {
	_, additional, found := strings.Cut(run("--help").out, "\nAdditional Commands:\n")
	if !found {
		t.Fatal("the help has no additional commands")
	}
	additional, _, _ = strings.Cut(additional, "\n\n")
	var names []string
	for line := range strings.Lines(additional) {
		names = append(names, strings.Fields(line)[0])
	}
	if want := []string{"completion", "help", "version"}; !slices.Equal(names, want) {
		t.Errorf("commands without a group: got %v, want %v", names, want)
	}
}

func TestUnhealthyRuntimesSetExitCodeForNegativeResult(t *testing.T) {
	if !isRefused(fmt.Errorf("status: %w", status.ErrUnhealthy)) {
		t.Error("errUnhealthy does not cause the exit code of a negative result")
	}
}
