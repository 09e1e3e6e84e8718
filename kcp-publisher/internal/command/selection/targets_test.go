package selection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// runtimeIDs contains the runtime IDs of Kymas with another name.
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
			err: "runtime kyma-3: ambiguous, it is the runtime ID of Kyma kyma-2 and the name of the Kyma of runtime " +
				"7f4a7c15: specify kyma/kyma-2 or kyma/kyma-3"},
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
	var out strings.Builder
	err = changeAll(t.Context(), &out, found, func(ctx context.Context, one Target) (string, error) {
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

func TestManyRuntimesRequireConfirmation(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.SetIn(strings.NewReader("yes\n")) // only a terminal can confirm
	err := terminal.Confirm(cmd, false, fmt.Sprintf("suspend %d runtimes", MaxUnconfirmed+1))
	if err == nil || err.Error() != "suspend 11 runtimes: add --yes to confirm" || !cli.IsUsage(err) {
		t.Errorf("without --yes: got %v, want a usage error", err)
	}
	if err := terminal.Confirm(cmd, true, "suspend 11 runtimes"); err != nil {
		t.Errorf("with --yes: got %v", err)
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
