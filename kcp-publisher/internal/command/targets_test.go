package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// kymasIn returns a client with Kymas of these names. A Kyma whose name starts with "eu" has the label region=eu. A
// Kyma whose name ends with "off" is suspended.
func kymasIn(t *testing.T, functions interceptor.Funcs, names ...string) client.WithWatch {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	build := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(functions)
	for _, name := range names {
		kyma := &v1beta2.Kyma{
			ObjectMeta: metav1.ObjectMeta{Namespace: defaultNamespace, Name: name, Labels: map[string]string{}},
		}
		if strings.HasPrefix(name, "eu") {
			kyma.Labels["region"] = "eu"
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
		targets
		names []string
		want  string
	}{
		"chosen by name":             {names: []string{"berlin", "oslo"}},
		"chosen by label":            {targets: targets{selector: "region=eu"}},
		"chosen by health":           {targets: targets{health: []string{"Failing"}}},
		"chosen by label and health": {targets: targets{selector: "region=eu", health: []string{"Failing", "Silent"}}},
		"all runtimes":               {targets: targets{all: true}},
		"no selection":               {want: "no runtimes selected"},
		"--all with runtime names": {
			targets: targets{all: true}, names: []string{"berlin"}, want: "runtime IDs cannot be combined",
		},
		"--all with a label selector": {
			targets: targets{all: true, selector: "region=eu"}, want: "--all cannot be combined",
		},
		"invalid label selector": {targets: targets{selector: "region=eu,,"}, want: `--selector "region=eu,,": `},
		"unknown health": {
			targets: targets{health: []string{"bad"}}, want: `--health "bad": must be one of Failing, Silent`,
		},
	} {
		err := c.check(c.names)
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) || !cli.IsUsage(err) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestSelectionFlagsFindMatchingRuntimes(t *testing.T) {
	api := kymasIn(t, interceptor.Funcs{}, "eu-1", "eu-2", "eu-off", "us-1")
	for name, c := range map[string]struct {
		targets
		names []string
		want  []string
		err   string
	}{
		"duplicate runtime IDs": {names: []string{"us-1", "eu-1", "us-1"}, want: []string{"eu-1", "us-1"}},
		"unknown runtime ID": {
			names: []string{"us-1", "eu-3"}, err: "runtime eu-3: no Kyma in namespace kcp-system",
		},
		"runtimes with a label": {targets: targets{selector: "region=eu"}, want: []string{"eu-1", "eu-2", "eu-off"}},
		"runtimes with the given health": {
			targets: targets{health: []string{string(fleet.Suspended)}}, want: []string{"eu-off"},
		},
		"runtimes with the given label and health": {
			targets: targets{selector: "region!=eu", health: []string{string(fleet.Suspended)}},
			err:     "no runtimes in namespace kcp-system match the selection",
		},
		"all runtimes": {targets: targets{all: true}, want: []string{"eu-1", "eu-2", "eu-off", "us-1"}},
	} {
		c.namespace = defaultNamespace
		found, err := c.findTargets(t.Context(), api, c.names, noon)
		var got []string
		for _, one := range found {
			got = append(got, one.id)
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
	found, err := (&targets{controlPlane: controlPlane{namespace: defaultNamespace}, all: true}).
		findTargets(t.Context(), api, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err = changeAll(t.Context(), &out, found, func(ctx context.Context, one target) (string, error) {
		return one.apply(ctx, api, actions.Suspend(""))
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
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: defaultNamespace, Name: name}, &kyma); err != nil ||
			kyma.Labels[v1beta2.LabelSkipReconciliation] != want {
			t.Errorf("%s: labels %v, %v", name, kyma.Labels, err)
		}
	}
}

func TestManyRuntimesRequireConfirmation(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.SetIn(strings.NewReader("yes\n")) // only a terminal can confirm
	err := confirm(cmd, false, fmt.Sprintf("suspend %d runtimes", maxUnconfirmed+1))
	if err == nil || err.Error() != "suspend 11 runtimes: add --yes to confirm" || !cli.IsUsage(err) {
		t.Errorf("without --yes: got %v, want a usage error", err)
	}
	if err := confirm(cmd, true, "suspend 11 runtimes"); err != nil {
		t.Errorf("with --yes: got %v", err)
	}
}

func TestDryRunListsTheSelectedRuntimes(t *testing.T) {
	var out strings.Builder
	listSelected(&out, "revoke the agent keys of", []target{{id: "berlin"}, {id: "oslo"}})
	want := "revoke the agent keys of runtime berlin (dry run)\nrevoke the agent keys of runtime oslo (dry run)\n" +
		"2 runtimes selected, nothing is changed\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
