// Package events implements the command that lists the Events of a fleet.
package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	age "k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
)

// maxListedEvents is the maximum number of Events that the command reads, to limit its memory.
const maxListedEvents = 20_000

type eventFlags struct {
	controlplane.Flags
	rollout, format string
	warnings        bool
}

// New returns the command events.
func New() *cobra.Command {
	f := &eventFlags{}
	cmd := &cobra.Command{
		Use: "events [RUNTIME]", Short: "list the fleet's Events, newest last",
		Long: "events lists the Events of Kymas, Rollouts, ModuleTemplates and ModuleReleaseMetas. With RUNTIME or " +
			"--rollout, it lists the Events of one\n" +
			"object. An API server keeps Events for an hour by default. The Events of the objects in a runtime stay " +
			"in that runtime.",
		Example: "  kcp-publisher events --warnings\n  kcp-publisher events berlin\n  kcp-publisher events --rollout " +
			"scaler-regular-3 -o yaml",
		Args: func(_ *cobra.Command, args []string) error { return f.check(args) },
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.Add(cmd.Flags(), "the Kymas")
	f.AddEverywhere(cmd.Flags())
	cmd.Flags().StringVar(&f.rollout, "rollout", "", "list only the Events for the Rollout with this name")
	cmd.Flags().BoolVar(&f.warnings, "warnings", false, "list only Warning Events")
	cli.OutputFlag(cmd.Flags(), &f.format)
	cli.Complete(cmd, f.Runtimes)
	cli.CompleteFlag(cmd, "rollout", f.Rollouts)
	return cmd
}

func (f *eventFlags) check(args []string) error {
	one := len(args) == 1 || f.rollout != ""
	switch {
	case len(args) > 1:
		return cli.Usage(fmt.Errorf("expected at most one runtime ID, got %d arguments", len(args)))
	case len(args) == 1 && f.rollout != "":
		return cli.Usage(errors.New("--rollout cannot be combined with a runtime ID"))
	case one && f.Everywhere:
		return cli.Usage(
			errors.New("--all-namespaces cannot be combined with a runtime ID or --rollout: use --namespace"))
	}
	return nil
}

func (f *eventFlags) run(cmd *cobra.Command, args []string) error {
	api, err := f.Connect()
	if err != nil {
		return err
	}
	about := fields.Set{}
	switch {
	case len(args) == 1:
		kyma, err := controlplane.FindKyma(cmd.Context(), api, f.Namespace, args[0])
		if err != nil {
			return err
		}
		about["involvedObject.uid"] = string(kyma.UID)
	case f.rollout != "":
		about["involvedObject.kind"], about["involvedObject.name"] = "Rollout", f.rollout
	}
	if f.warnings {
		about["type"] = corev1.EventTypeWarning
	}
	all, err := listEvents(cmd.Context(), api, f.Scope(), about)
	if err != nil {
		return err
	}
	return cli.Print(cmd.OutOrStdout(), f.format, all, func(out io.Writer) { f.draw(out, all, time.Now()) })
}

// listEvents returns the Events for objects of the fleet's API groups, oldest first.
func listEvents(ctx context.Context, api client.Reader, namespace string, about fields.Set) ([]corev1.Event, error) {
	var all []corev1.Event
	var selector fields.Selector
	if len(about) > 0 {
		selector = fields.SelectorFromSet(about)
	}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list := &corev1.EventList{}
		return list, api.List(ctx, list, &client.ListOptions{
			Namespace: namespace, FieldSelector: selector, Limit: options.Limit, Continue: options.Continue,
		})
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if e := object.(*corev1.Event); isFleetEvent(e.InvolvedObject) {
			e.ManagedFields = nil // kubectl also omits managedFields
			all = append(all, *e)
		}
		if len(all) > maxListedEvents {
			return fmt.Errorf("more than %d Events: specify a runtime ID, or use --rollout or --warnings", maxListedEvents)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list Events: %w", err)
	}
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return lastSeen(&a).Compare(lastSeen(&b)) })
	return all, nil
}

func isFleetEvent(object corev1.ObjectReference) bool {
	return object.APIVersion == v1beta2.GroupVersion.String() || object.APIVersion == v1alpha1.GroupVersion.String()
}

// lastSeen returns the time of an Event's last occurrence. Kubernetes' Event recorders write it to different fields.
func lastSeen(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	for _, at := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
		if !at.IsZero() {
			return at
		}
	}
	return e.CreationTimestamp.Time
}

func occurrences(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(e.Count, 1)
}

func (f *eventFlags) draw(out io.Writer, all []corev1.Event, now time.Time) {
	if len(all) == 0 {
		fmt.Fprintln(out, "no Events")
		return
	}
	t, palette := terminal.NewTable(out), cli.NewPalette(out)
	header := table.Row{"AGE", "TYPE", "REASON", "OBJECT", "COUNT", "MESSAGE"}
	if f.Everywhere {
		header = append(table.Row{"NAMESPACE"}, header...)
	}
	t.AppendHeader(header)
	for i := range all {
		e := &all[i]
		color := cli.Plain
		if e.Type == corev1.EventTypeWarning {
			color = cli.Yellow
		}
		row := table.Row{
			age.HumanDuration(now.Sub(lastSeen(e))), terminal.Painted(e.Type, color, palette), e.Reason,
			cmp.Or(e.InvolvedObject.Kind, "-") + "/" + e.InvolvedObject.Name, occurrences(e), e.Message,
		}
		if f.Everywhere {
			row = append(table.Row{e.Namespace}, row...)
		}
		t.AppendRow(row)
	}
	t.Render()
}
