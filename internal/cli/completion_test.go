package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestShellCompletionOffersNames(t *testing.T) {
	var namespace string
	list := func(_ context.Context, args []string) ([]string, error) {
		switch namespace {
		case "away":
			return nil, errors.New("no connection")
		case "hostile":
			return []string{"fine", "two words", "a\x1b[2J", "", "$(reboot)", "`reboot`", "a;reboot", "a$IFS",
				"--kubeconfig=/tmp/theirs", "a\u202eb"}, nil
		}
		return append([]string{"berlin", "tokyo"}, args...), nil
	}
	completed := func(args ...string) []string {
		root, _ := NewRoot("program", "is tested", "v0")
		var format string
		show := &cobra.Command{Use: "show", RunE: func(*cobra.Command, []string) error { return nil }}
		show.Flags().StringVar(&namespace, "namespace", "", "")
		show.Flags().String("module", "", "")
		OutputFlag(show.Flags(), &format, "wide")
		Complete(show, list, list)
		CompleteFlag(show, "module", list)
		root.AddCommand(show)
		_, out := execute(root, nil, append([]string{"__completeNoDesc", "show"}, args...)...)
		out, _, _ = strings.Cut(out, ":")
		return strings.Fields(out)
	}
	for args, want := range map[string]string{
		"":                     "berlin tokyo",
		"berlin ":              "berlin tokyo berlin",
		"berlin scaler ":       "",
		"--module ":            "berlin tokyo",
		"--namespace away ":    "",
		"--namespace hostile ": "fine",
		"-o ":                  "table json yaml wide",
		"--color ":             "auto always never",
	} {
		if got := completed(strings.Split(args, " ")...); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: got %v, want %s", args, got, want)
		}
	}
}

func TestKubectlPluginHelpShowsKubectl(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/bin/kubectl-kyma_pull": "kubectl kyma-pull",
		"kubectl-kyma_pull.exe":      "kubectl kyma-pull",
		"/usr/bin/kcp-publisher":     "kcp-publisher",
		"kubectl-":                   "kcp-publisher",
	} {
		root, _ := NewRoot("kcp-publisher", "is tested", "v0")
		if asPlugin(root, program); root.UseLine() != want {
			t.Errorf("%s: got %q, want %q", program, root.UseLine(), want)
		}
	}
	root, _ := NewRoot("kcp-publisher", "is tested", "v0")
	asPlugin(root, "kubectl-kyma_pull")
	if code, out := execute(root, nil, "statsu"); code != ExitUsage ||
		!strings.HasPrefix(out, "kubectl kyma-pull: unknown command") ||
		!strings.Contains(out, "run `kubectl kyma-pull --help`") {
		t.Errorf("got exit code %d: %s, want a usage error that names kubectl", code, out)
	}
}
