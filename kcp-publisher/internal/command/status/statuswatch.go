package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/internal/pause"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/controller"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const (
	changesSettle = 500 * time.Millisecond
	refreshAnyway = 30 * time.Second
)

func (f *statusFlags) follow(cmd *cobra.Command, selector labels.Selector) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	handle, failed := newWatchErrors(ctx)
	known, changed, err := f.watchControlPlane(ctx, selector, handle)
	if err != nil {
		return err
	}
	if err := waitForSync(ctx, known.WaitForCacheSync, failed); err != nil {
		return err
	}
	api, err := f.Connect()
	if err != nil {
		return err
	}
	out, problem := cmd.OutOrStdout(), outage{out: cmd.ErrOrStderr()}
	var before map[string]fleet.Runtime
	var last fleet.Fleet
	var around fleet.Input
	tick := time.NewTicker(refreshAnyway)
	defer tick.Stop()
	for refresh := true; ; {
		if refresh {
			err := f.refresh(ctx, api, &around)
			if err != nil && before == nil {
				return err
			}
			if ctx.Err() != nil {
				return nil
			}
			problem.record(err, time.Now())
		}
		now, err := f.assess(ctx, known, around)
		if err != nil {
			return err
		}
		if before == nil {
			if err := f.begin(out, now); err != nil {
				return err
			}
		} else if err := errors.Join(f.printNews(out, last, now), f.printChanges(out, before, now)); err != nil {
			return err
		}
		before, last, refresh = indexByKyma(f.filterRuntimes(now.Runtimes)), now, false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			refresh = true
		case err := <-failed:
			problem.record(err, time.Now())
		case <-changed:
			if !pause.Sleep(ctx, changesSettle) {
				return nil
			}
		}
	}
}

// refresh reads the objects that the cache does not contain. If a read fails, refresh keeps the previous objects,
// because the command would print missing warnings as resolved.
func (f *statusFlags) refresh(ctx context.Context, api client.Reader, around *fleet.Input) error {
	offered, err := f.readOffered(ctx, api)
	if err == nil {
		around.Metas = offered.Metas
	}
	if f.Everywhere {
		return err
	}
	err = errors.Join(err, controlplane.ReadCircumstances(ctx, api, f.Namespace, around))
	if leftOut, err := controlplane.ReadLeftOut(ctx, api, f.Namespace); err == nil {
		around.LeftOut = leftOut
	}
	return err
}

func (f *statusFlags) readOffered(ctx context.Context, api client.Reader) (fleet.Input, error) {
	var metas v1beta2.ModuleReleaseMetaList
	if err := api.List(ctx, &metas, client.InNamespace(f.Scope())); err != nil {
		return fleet.Input{}, fmt.Errorf("read the control plane: %w", err)
	}
	return fleet.Input{Metas: metas.Items}, nil
}

func (f *statusFlags) begin(out io.Writer, first fleet.Fleet) error {
	if err := f.checkModuleExists(first.Modules); err != nil {
		return err
	}
	if err := f.print(out, first); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out)
	return err
}

// watchControlPlane starts a cache of the control plane's objects. It returns the cache and a channel that signals
// changes. The cache passes errors to the function failed.
func (f *statusFlags) watchControlPlane(
	ctx context.Context, selector labels.Selector, failed toolscache.WatchErrorHandlerWithContext,
) (cache.Cache, <-chan struct{}, error) {
	ctrl.SetLogger(logr.Discard()) // the cache would log each failed request
	config, err := f.Cluster.Config()
	if err != nil {
		return nil, nil, err
	}
	config.Timeout = 0 // a timeout would end watches
	scheme, err := controlplane.NewScheme()
	if err != nil {
		return nil, nil, err
	}
	options := cache.Options{
		Scheme: scheme, DefaultWatchErrorHandler: failed, ByObject: map[client.Object]cache.ByObject{
			&v1beta2.Kyma{}: {Label: selector, Transform: controller.NewSlimmer().Transform},
		},
	}
	if scope := f.Scope(); scope != "" {
		options.DefaultNamespaces = map[string]cache.Config{scope: {}}
	}
	known, err := cache.New(config, options)
	if err != nil {
		return nil, nil, fmt.Errorf("watch the control plane: %w", err)
	}
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for _, kind := range []client.Object{&v1beta2.Kyma{}, &v1alpha1.Rollout{}} {
		informer, err := known.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() },
				DeleteFunc: func(any) { notify() },
			})
		}
		if err != nil {
			return nil, nil, fmt.Errorf("watch the control plane: %w", err)
		}
	}
	go func() { _ = known.Start(ctx) }()
	return known, changed, nil
}

func (f *statusFlags) assess(ctx context.Context, cached client.Reader, input fleet.Input) (fleet.Fleet, error) {
	var kymas v1beta2.KymaList
	var rollouts v1alpha1.RolloutList
	for _, list := range []client.ObjectList{&kymas, &rollouts} {
		if err := cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fleet.Fleet{}, fmt.Errorf("read the control plane: %w", err)
		}
	}
	input.Kymas, input.Rollouts, input.Now = kymas.Items, rollouts.Items, time.Now()
	return fleet.Assess(input), nil
}

// printNews prints new and resolved warnings and changed rollouts. It prints nothing if the output is JSON or filtered.
func (f *statusFlags) printNews(out io.Writer, before, now fleet.Fleet) error {
	if f.format == "json" || f.isSet() {
		return nil
	}
	var err error
	say := func(color cli.Color, what, state, message string) {
		_, wrong := fmt.Fprintf(out, "%s  %s%s  %s\n", now.Time.Format(time.TimeOnly), what,
			cli.NewPalette(out).Paint(color, bundle.PrintableLine(state)), bundle.PrintableLine(message))
		err = errors.Join(err, wrong)
	}
	for _, w := range now.Warnings {
		if !slices.ContainsFunc(before.Warnings, w.IsSameProblem) {
			say(cli.Yellow, "", "warning", w.Message)
		}
	}
	for _, was := range before.Warnings {
		if !slices.ContainsFunc(now.Warnings, was.IsSameProblem) {
			say(cli.Green, "", "warning resolved", was.Message)
		}
	}
	for _, r := range now.Rollouts {
		same := func(was fleet.Rollout) bool {
			return was.Namespace == r.Namespace && was.Name == r.Name && was.Status.State == r.Status.State &&
				was.Status.Wave == r.Status.Wave
		}
		if !slices.ContainsFunc(before.Rollouts, same) {
			say(terminal.ColorOfRollout(r.Status.State), "rollout "+bundle.PrintableLine(r.Name)+"  ",
				cmp.Or(string(r.Status.State), "New"), r.Status.Message)
		}
	}
	return err
}

func (f *statusFlags) printChanges(out io.Writer, before map[string]fleet.Runtime, now fleet.Fleet) error {
	var err error
	selected := f.filterRuntimes(now.Runtimes)
	for i := range selected {
		r := selected[i]
		if was, known := before[runtimeKey(r)]; !known || changeKey(was) != changeKey(r) {
			err = errors.Join(err, f.printChange(out, now.Time, r, ""))
		}
		delete(before, runtimeKey(r))
	}
	is := indexByKyma(now.Runtimes)
	for key, was := range before {
		if r, there := is[key]; there {
			err = errors.Join(err, f.printChange(out, now.Time, r, " (no longer selected)"))
		} else {
			err = errors.Join(err, f.printChange(out, now.Time, was, " (its Kyma was deleted)"))
		}
	}
	return err
}

func (f *statusFlags) printChange(out io.Writer, at time.Time, r fleet.Runtime, remark string) error {
	if f.format == "json" {
		line, err := json.Marshal(r)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", line)
		}
		return err
	}
	message := ""
	if r.Cause != nil {
		message = bundle.PrintableLine(r.Cause.Message)
	}
	_, err := fmt.Fprintf(out, "%s  %s  %s%s  %s  %s\n", at.Format(time.TimeOnly), bundle.PrintableLine(r.ID),
		cli.NewPalette(out).Paint(terminal.HealthColor(r.Health), string(r.Health)), remark, formatReady(r.Modules), message)
	return err
}

// changeKey returns the fields of a runtime that `status --watch` displays. If they change, the command prints the
// runtime again.
func changeKey(r fleet.Runtime) string {
	text := fmt.Sprintf("%s %s", r.Health, r.State)
	if r.Cause != nil {
		text += " " + r.Cause.Message
	}
	for _, m := range r.Modules {
		text += fmt.Sprintf("\n%s %s %s", m.Name, m.Version, m.State)
	}
	return text
}

func runtimeKey(r fleet.Runtime) string { return r.Namespace + "/" + r.Kyma }

func indexByKyma(all []fleet.Runtime) map[string]fleet.Runtime {
	found := make(map[string]fleet.Runtime, len(all))
	for _, r := range all {
		found[runtimeKey(r)] = r
	}
	return found
}
