package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplanetest"
)

// newFourRuntimes returns a control plane with four runtimes: id-0 and id-1 have the label region=west, and id-1 is
// Failing. Each Kyma's name differs from its runtime ID.
func newFourRuntimes(t *testing.T, changes ...func(int, *v1beta2.Kyma)) *controlplanetest.Server {
	t.Helper()
	return controlplanetest.New(t, 4, append(changes, func(i int, kyma *v1beta2.Kyma) {
		id := fmt.Sprintf("id-%d", i)
		kyma.Labels[v1beta2.LabelRuntimeID], kyma.Status.Runtime.ID = id, id
		kyma.Status.Runtime.Key = &v1beta2.RuntimeKey{Thumbprint: "key-" + id}
		if i < 2 {
			kyma.Labels["region"] = "west"
		}
		if i == 1 {
			controlplanetest.Break(kyma)
		}
	})...)
}

func TestCommandsChangeOnlyTheSelectedRuntimes(t *testing.T) {
	suspended := func(kyma *v1beta2.Kyma) bool { return kyma.Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True }
	commands := map[string]struct {
		args      []string
		prepare   func(int, *v1beta2.Kyma)
		isChanged func(*v1beta2.Kyma) bool
	}{
		"suspend": {args: []string{"suspend", "--reason", "move"}, isChanged: suspended},
		"resume": {
			args:      []string{"resume"},
			prepare:   func(_ int, kyma *v1beta2.Kyma) { kyma.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.True },
			isChanged: func(kyma *v1beta2.Kyma) bool { return !suspended(kyma) },
		},
		"reconcile": {
			args:      []string{"reconcile", "--timeout", "0"},
			isChanged: func(kyma *v1beta2.Kyma) bool { return kyma.Annotations[v1beta2.AnnotationReconcileRequested] != "" },
		},
		"revoke": {
			args: []string{"revoke"},
			isChanged: func(kyma *v1beta2.Kyma) bool {
				return kyma.Annotations[v1beta2.AnnotationRevokedKeys] == kyma.Status.Runtime.Key.Thumbprint
			},
		},
	}
	selections := map[string][]string{
		"id-0 runtime-00003 id-3": {"id-0", "id-3"},
		"runtime-00002":           {"id-2"},
		"-l region=west":          {"id-0", "id-1"},
		"--all":                   {"id-0", "id-1", "id-2", "id-3"},
		"--health Failing":        {"id-1"},
	}
	for name, command := range commands {
		for selection, want := range selections {
			if name == "resume" && selection == "--health Failing" {
				selection, want = "--health Suspended", selections["--all"]
			}
			t.Run(name+" "+selection, func(t *testing.T) {
				server := newFourRuntimes(t, func(i int, kyma *v1beta2.Kyma) {
					if command.prepare != nil {
						command.prepare(i, kyma)
					}
				})
				config := server.Kubeconfig(t)
				args := slices.Concat(command.args, []string{"--kubeconfig", config}, strings.Fields(selection))
				changed := func() (ids []string) {
					for i := range server.Kymas {
						if command.isChanged(&server.Kymas[i]) {
							ids = append(ids, server.Kymas[i].Status.Runtime.ID)
						}
					}
					return ids
				}
				if o := run(append(args, "--dry-run")...); o.code != 0 || len(changed()) > 0 ||
					strings.Count(o.out, "(dry run)\n") != len(want) {
					t.Errorf("dry run: got %+v, and changed %v", o, changed())
				}
				if o := run(args...); o.code != 0 || !slices.Equal(changed(), want) {
					t.Errorf("got %+v, and changed %v, want %v", o, changed(), want)
				}
			})
		}
	}
}

func TestEmptySelectionsChangeNoRuntimes(t *testing.T) {
	for name, args := range map[string][]string{
		"resume with an empty selector":        {"resume", "-l", "", "--health", "Suspended"},
		"suspend with an empty health":         {"suspend", "-l", "region=west", "--health", ""},
		"status with an empty selector":        {"status", "-l", ""},
		"status with an empty health":          {"status", "--health", ""},
		"takeover plan with an empty selector": {"takeover", "plan", "-l", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := newFourRuntimes(t, func(i int, kyma *v1beta2.Kyma) {
				if i == 3 {
					kyma.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.True
				}
			})
			o := run(append(args, "--kubeconfig", server.Kubeconfig(t))...)
			if o.code != cli.ExitUsage || !strings.Contains(o.err, "the value is empty") {
				t.Errorf("got %+v, want a usage error", o)
			}
			for i := range server.Kymas {
				if got := server.Kymas[i].Labels[v1beta2.LabelSkipReconciliation]; (got == v1beta2.True) != (i == 3) {
					t.Errorf("runtime id-%d: got label value %q", i, got)
				}
			}
		})
	}
}

func TestRevokePrintsTheEnrollCommandForTheKyma(t *testing.T) {
	o := run("revoke", "runtime-00002", "--kubeconfig", newFourRuntimes(t).Kubeconfig(t))
	if !strings.Contains(o.out, "kcp-publisher enroll id-2 --kyma kcp-system/runtime-00002 ...") {
		t.Errorf("got %+v", o)
	}
}
