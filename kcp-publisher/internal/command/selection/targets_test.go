package selection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplanetest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// runtimeIDs contains the runtime IDs of Kymas whose ID differs from their name.
var runtimeIDs = map[string]string{"kyma-1": "9e3779b1", "kyma-2": "kyma-3", "kyma-3": "7f4a7c15"}

// kymasIn returns a client with Kymas of these names. A Kyma whose name starts with "eu" has the label region=eu. A
// Kyma whose name ends with "off" is suspended.
func kymasIn(t *testing.T, functions interceptor.Funcs, names ...string) client.WithWatch {
	t.Helper()
	scheme, err := controlplane.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	build := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(functions)
	for _, name := range names {
		kyma := &v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.DefaultNamespace, Name: name, Labels: map[string]string{}},
		}
		if strings.HasPrefix(name, "eu") {
			kyma.Labels["region"] = "eu"
		}
		if id, renamed := runtimeIDs[name]; renamed {
			kyma.Labels[v1beta2.LabelRuntimeID] = id
		}
		if strings.HasSuffix(name, "off") {
			kyma.Labels[v1beta2.LabelSkipReconciliation] = v1beta2.True
		}
		build = build.WithObjects(kyma)
	}
	return build.Build()
}

func TestRuntimeSelectionsCannotBeCombined(t *testing.T) {
	for name, c := range map[string]struct {
		Targets
		names []string
		want  string
	}{
		"chosen by name":             {names: []string{"berlin", "oslo"}},
		"chosen by label":            {Targets: Targets{selector: "region=eu"}},
		"chosen by health":           {Targets: Targets{health: []string{"Failing"}}},
		"chosen by label and health": {Targets: Targets{selector: "region=eu", health: []string{"Failing", "Silent"}}},
		"all runtimes":               {Targets: Targets{all: true}},
		"no selection":               {want: "no runtimes selected"},
		"--all with runtime names": {
			Targets: Targets{all: true}, names: []string{"berlin"}, want: "runtime IDs cannot be combined",
		},
		"--all with a label selector": {
			Targets: Targets{all: true, selector: "region=eu"}, want: "--all cannot be combined",
		},
		"invalid label selector": {Targets: Targets{selector: "region=eu,,"}, want: `--selector "region=eu,,": `},
		"unknown health": {
			Targets: Targets{health: []string{"bad"}}, want: `--health "bad": must be one of Failing, Silent`,
		},
	} {
		err := c.Check(c.names)
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) || !cli.IsUsage(err) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestSelectionFlagsFindMatchingRuntimes(t *testing.T) {
	api := kymasIn(t, interceptor.Funcs{}, "eu-1", "eu-2", "eu-off", "kyma-1", "kyma-2", "kyma-3", "us-1")
	for name, c := range map[string]struct {
		Targets
		names []string
		want  []string
		err   string
	}{
		"duplicate runtime IDs": {names: []string{"us-1", "eu-1", "us-1"}, want: []string{"eu-1", "us-1"}},
		"runtime ID and name of the same Kyma": {names: []string{"kyma-1", "9e3779b1", "kyma/kyma-1"},
			want: []string{"9e3779b1"}},
		"Kyma with its kind and group": {names: []string{"kyma.operator.kyma-project.io/kyma-1"},
			want: []string{"9e3779b1"}},
		"runtime ID that is also the name of another Kyma": {names: []string{"kyma-3"},
			err: "runtime kyma-3 is ambiguous: it is Kyma kyma-2's runtime ID, and the name of runtime 7f4a7c15's Kyma; " +
				"specify kyma/kyma-2 or kyma/kyma-3"},
		"Kymas with ambiguous names": {names: []string{"kyma/kyma-3", "kyma/kyma-2"}, want: []string{"7f4a7c15", "kyma-3"}},
		"unknown Kyma":               {names: []string{"kyma/us-2"}, err: "runtime us-2: no Kyma in namespace kcp-system"},
		"unknown runtime ID": {
			names: []string{"us-1", "eu-3"}, err: "runtime eu-3: no Kyma in namespace kcp-system",
		},
		"runtimes with a label": {Targets: Targets{selector: "region=eu"}, want: []string{"eu-1", "eu-2", "eu-off"}},
		"runtimes with the given health": {
			Targets: Targets{health: []string{string(fleet.Suspended)}}, want: []string{"eu-off"},
		},
		"runtimes with the given label and health": {
			Targets: Targets{selector: "region!=eu", health: []string{string(fleet.Suspended)}},
			err:     "no runtimes in namespace kcp-system match the selection",
		},
		"all runtimes": {Targets: Targets{all: true},
			want: []string{"7f4a7c15", "9e3779b1", "eu-1", "eu-2", "eu-off", "kyma-3", "us-1"}},
	} {
		c.Namespace = controlplane.DefaultNamespace
		found, err := c.FindTargets(t.Context(), api, c.names, noon)
		var got []string
		for _, one := range found {
			got = append(got, one.ID)
		}
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestFailedRuntimeDoesNotStopOthers(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "kymas"}, "eu-2", errors.New("not allowed"))
	api := kymasIn(t, interceptor.Funcs{
		Patch: func(ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			if object.GetName() == "eu-2" {
				return forbidden
			}
			return api.Patch(ctx, object, patch, options...)
		},
	}, "eu-1", "eu-2", "eu-3")
	found, err := (&Targets{Flags: controlplane.Flags{Namespace: controlplane.DefaultNamespace}, all: true}).
		FindTargets(t.Context(), api, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	cmd, out := &cobra.Command{}, &strings.Builder{}
	cmd.SetContext(t.Context())
	cmd.SetOut(out)
	err = changeAll(cmd, "suspend", found, func(ctx context.Context, one Target) (string, error) {
		return one.Apply(ctx, api, actions.Suspend(""))
	})
	if err == nil || err.Error() != "1 of 3 runtimes failed" {
		t.Errorf("got %v, want an error about 1 of 3 runtimes", err)
	}
	if !strings.Contains(out.String(), "failed: runtime eu-2: change kcp-system/eu-2: ") ||
		strings.Count(out.String(), " is suspended: ") != 2 {
		t.Errorf("got output\n%s\nwant one failed and two suspended runtimes", out.String())
	}
	for name, want := range map[string]string{"eu-1": "true", "eu-2": "", "eu-3": "true"} {
		var kyma v1beta2.Kyma
		key := client.ObjectKey{Namespace: controlplane.DefaultNamespace, Name: name}
		if err := api.Get(t.Context(), key, &kyma); err != nil ||
			kyma.Labels[v1beta2.LabelSkipReconciliation] != want {
			t.Errorf("%s: labels %v, %v", name, kyma.Labels, err)
		}
	}
}

func TestCanceledContextStopsFurtherChanges(t *testing.T) {
	found := make([]Target, 500)
	for i := range found {
		found[i] = Target{ID: fmt.Sprintf("r-%d", i)}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd, out := &cobra.Command{}, &strings.Builder{}
	cmd.SetContext(ctx)
	cmd.SetOut(out)
	var tried atomic.Int32
	err := changeAll(cmd, "suspend", found, func(ctx context.Context, _ Target) (string, error) {
		if tried.Add(1) == 1 {
			cancel()
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
	if n := tried.Load(); n > changedAtOnce || strings.Count(out.String(), "failed: ") != int(n) ||
		!errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), fmt.Sprintf("%d not done", len(found)-int(n))) {
		t.Errorf("tried %d runtimes, got %v and\n%s", n, err, out)
	}
}

// runTargets suspends all runtimes in a control plane with n Kymas. It returns the output and the number of changed
// Kymas.
func runTargets(t *testing.T, n int, flags ...string) (out string, changed int, err error) {
	t.Helper()
	server := controlplanetest.New(t, n)
	var targets Targets
	var output strings.Builder
	cmd := &cobra.Command{SilenceUsage: true, SilenceErrors: true, RunE: func(cmd *cobra.Command, args []string) error {
		return targets.Run(cmd, args, "suspend", func(ctx context.Context, api client.Client, one Target) (string, error) {
			return one.Apply(ctx, api, actions.Suspend(""))
		})
	}}
	targets.Add(cmd)
	cmd.SetOut(&output)
	cmd.SetErr(&output)
	cmd.SetIn(strings.NewReader("yes\n")) // not a terminal, so the answer must be ignored
	cmd.SetArgs(append([]string{"--kubeconfig", server.Kubeconfig(t), "--all"}, flags...))
	err = cmd.ExecuteContext(t.Context())
	for i := range server.Kymas {
		if server.Kymas[i].Labels[v1beta2.LabelSkipReconciliation] == v1beta2.True {
			changed++
		}
	}
	return output.String(), changed, err
}

func TestManyRuntimesRequireConfirmation(t *testing.T) {
	const question = "suspend 11 runtimes in namespace kcp-system: add --yes to confirm"
	for name, c := range map[string]struct {
		runtimes int
		flags    []string
		changed  int
		out, err string
	}{
		"10 runtimes":               {runtimes: 10, changed: 10, out: "10 runtimes changed\n"},
		"11 runtimes":               {runtimes: 11, err: question},
		"11 runtimes, confirmed":    {runtimes: 11, flags: []string{"--yes"}, changed: 11, out: "11 runtimes changed\n"},
		"dry run with 10 runtimes":  {runtimes: 10, flags: []string{"--dry-run"}, out: "10 runtimes selected, nothing is"},
		"dry run with 11 runtimes":  {runtimes: 11, flags: []string{"--dry-run"}, out: "11 runtimes selected, nothing is"},
		"confirmed dry run with 11": {runtimes: 11, flags: []string{"--dry-run", "--yes"}, out: "nothing is changed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, changed, err := runTargets(t, c.runtimes, c.flags...)
			if changed != c.changed || !strings.Contains(out, c.out) {
				t.Errorf("changed %d Kymas, want %d, and printed\n%s", changed, c.changed, out)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err || !cli.IsUsage(err)) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
		})
	}
}

func TestDryRunListsTheSelectedRuntimes(t *testing.T) {
	var out strings.Builder
	listSelected(&out, "revoke the agent keys of", []Target{{ID: "berlin"}, {ID: "oslo"}})
	want := "revoke the agent keys of runtime berlin (dry run)\nrevoke the agent keys of runtime oslo (dry run)\n" +
		"2 runtimes selected, nothing is changed\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
