// Package publish implements the command that publishes bundles without a control plane.
package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/git"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

type publishFlags struct {
	from, to, format string
	keys             keys.Folder
	components       flagset.ComponentFlags
	settings         flagset.SettingsFlags
	maintenance      flagset.MaintenanceFlags
	validity         time.Duration
	concurrency      int
	registry         cli.Registry
	restricted       []string
	git              flagset.GitFlags
	state            string
	dryRun           bool
	allowUnresolved  bool
	rewind           bool
	removals         flagset.RemovalFlags
	approved         []string
}

// New returns the command publish.
func New(*cli.Root) *cobra.Command {
	f := &publishFlags{}
	cmd := &cobra.Command{
		Use: "publish", Short: "publish YAML files to runtimes without a Kubernetes control plane",
		Args: cli.Exactly(0, "no arguments"),
		Long: "publish reads Kymas, ModuleTemplates and ModuleReleaseMetas from a folder or Git repository, resolves " +
			"them and pushes one signed bundle per Kyma.\n" +
			"It skips runtimes whose bundle is up to date, so a second run pushes nothing. Annotations and " +
			"labels of Kymas have the same\n" +
			"effect as with `run`; settings that require a control plane are reported and ignored.\n" +
			"A commit of a Git repository must descend from the commit of the last run.\n" +
			"Modules stay if their removal affects more runtimes than allowed. The command prints these removals before " +
			"it pushes anything.\n" +
			"To approve them, run it again with --approve-removals.\n" +
			"The exit code is 1 if publishing to a runtime failed, a removal waits for approval, a Watcher is " +
			"invalid, or a requested module\n" +
			"did not resolve. Other runtimes and modules are published.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "",
		"folder, or URL of a Git repository, with YAML files; common transport archives in it are component "+
			"sources too")
	f.git.Add(flags)
	flags.StringVar(&f.to, "to", "", "registry prefix HOST/PATH, or oci-layout:DIR")
	f.components.Add(flags, flags)
	f.settings.Add(flags, flags)
	flagset.AddRestrictedFlag(flags, &f.restricted)
	f.maintenance.Add(flags, flags)
	flags.DurationVar(&f.validity, "validity", flagset.DefaultValidity,
		"minimum validity period of a bundle; a bundle is renewed after a third of its validity period")
	flags.IntVar(&f.concurrency, "concurrency", 8, "number of runtimes to publish at once")
	keyfolder.AddPublisherFlags(flags, &f.keys)
	flags.StringVar(&f.state, "state", "",
		"file that records the published bundles and the last commit, to detect old bundles in the registry and old "+
			"commits; default: published.json in the --keys folder")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the bundles that would be pushed, without pushing anything")
	flags.BoolVar(&f.allowUnresolved, "allow-unresolved", false, "exit with 0 even if modules did not resolve")
	flags.BoolVar(&f.rewind, "allow-rewind", false,
		"publish a commit of another repository or branch, or one that does not descend from the commit of the last run")
	f.removals.Add(flags)
	flags.StringSliceVar(&f.approved, "approve-removals", nil,
		"IDs of held module removals to approve, as printed by an earlier run")
	cli.OutputFlag(flags, &f.format)
	f.registry.AddFlags(flags)
	return cmd
}

func (f *publishFlags) run(cmd *cobra.Command) error {
	if err := cli.RequireFlags(cli.Required{Flag: "--from", Given: f.from != ""},
		cli.Required{Flag: "--to", Given: f.to != ""}); err != nil {
		return err
	}
	if f.validity == 0 {
		return cli.Usage(flagset.ErrZeroValidity)
	}
	if f.rewind && !git.IsRepository(f.from) {
		return cli.Usage(fmt.Errorf("--from %s is a folder, so --allow-rewind does not apply", f.from))
	}
	ctx := cmd.Context()
	loaded, err := f.git.LoadObjects(ctx, "--from", f.from, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer loaded.Close()
	objects := loaded.Objects
	snapshot, err := catalog.New(objects.Templates, objects.Metas, f.restricted...)
	if err != nil {
		return err
	}
	rules, err := f.rules(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	var refused map[string]error
	rules.Watchers, refused = plan.CheckWatchers(objects.Watchers)
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		cli.Printf(cmd.ErrOrStderr(), "not published: %v\n", refused[name])
	}
	limits, err := f.removals.Limits()
	if err != nil {
		return err
	}
	guard := &removalGuard{limits: limits, approved: f.approved}
	publisher, done, err := f.publisher(ctx, objects, guard)
	if err != nil {
		return err
	}
	defer done()
	if len(objects.Kymas) == 0 {
		return fmt.Errorf("--from %s contains no Kyma, so there is no runtime to publish to", f.from)
	}
	rules.Root, rules.Source = publisher.Root(), loaded.Source
	kymas := prepareOffline(objects, cmd.ErrOrStderr())
	file, err := f.openState(ctx, publisher.Place, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	memory := savedState{file: file, flush: store.Batch(publisher.Place)}
	if err := f.acceptCommit(ctx, loaded, file); err != nil {
		return errors.Join(err, memory.close())
	}
	fleet := &fleet{
		publisher: publisher, catalog: snapshot, rules: rules, memory: memory, guard: guard, kymas: kymas,
		concurrency: f.concurrency, progress: cmd.ErrOrStderr(), dryRun: f.dryRun,
	}
	rows, err := fleet.publish(ctx)
	if err != nil {
		return errors.Join(err, memory.close())
	}
	if err := errors.Join(memory.save(), memory.close()); err != nil {
		return err
	}
	if f.dryRun {
		wouldPush(rows)
	}
	if err := cli.Print(cmd.OutOrStdout(), f.format, rows,
		func(out io.Writer) { drawPublished(out, rows) }); err != nil {
		return err
	}
	return f.verdict(rows, slices.Sorted(maps.Keys(refused)))
}

// rules returns the planning rules that the flags define. It prints remarks about the maintenance policy to out.
func (f *publishFlags) rules(out io.Writer) (rules plan.Rules, err error) {
	rules.IsOffline = true
	if err = f.settings.NameOnly(); err != nil {
		return rules, err
	}
	if rules.Settings, err = f.settings.Settings(); err != nil {
		return rules, err
	}
	if rules.AgentRollbackFrom, err = f.settings.Rollbacks(); err != nil {
		return rules, err
	}
	if rules.KymaLabels, err = f.settings.CopiedLabels(); err != nil {
		return rules, err
	}
	rules.Maintenance, err = f.maintenance.Maintenance(func(remark string) {
		cli.Printf(out, "--maintenance-policy: %s\n", remark)
	})
	return rules, err
}

// prepareOffline prepares the Kymas for planning without a control plane, and prints ignored objects to out.
func prepareOffline(objects source.Objects, out io.Writer) []v1beta2.Kyma {
	for _, p := range objects.Policies {
		cli.Printf(out,
			"RolloutPolicy %s is ignored, because rollouts require a control plane: every runtime gets the version "+
				"of its channel\n", p.Name)
	}
	for _, p := range objects.Trains {
		cli.Printf(out, "PromotionPolicy %s is ignored, because promotions require a control plane\n", p.Name)
	}
	kymas := make([]v1beta2.Kyma, len(objects.Kymas))
	for i := range objects.Kymas {
		known, ignored := plan.PrepareOffline(&objects.Kymas[i])
		for _, line := range ignored {
			fmt.Fprintln(out, line)
		}
		kymas[i] = *known
	}
	return kymas
}

func (f *publishFlags) publisher(
	ctx context.Context, objects source.Objects, guard *removalGuard,
) (*publish.Publisher, func(), error) {
	place, registries, err := f.registry.Open("--to", f.to, store.Access{})
	if err != nil {
		return nil, nil, err
	}
	loaded, err := f.keys.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	if f.dryRun {
		place = store.DryRun(place)
	}
	if err := loaded.PublishRoots(ctx, place); err != nil {
		return nil, nil, err
	}
	if err := keyfolder.CheckKeys(ctx, loaded, place); err != nil {
		return nil, nil, err
	}
	if store.IsLayout(place) {
		f.concurrency = 1 // an OCI layout has a single index file, so concurrent writes do not help
	}
	components, err := f.components.Open(component.Options{
		Registries: registries, Revalidate: time.Hour, RetryAfter: time.Hour,
	}, objects.Components)
	if err != nil {
		return nil, nil, err
	}
	done := func() { _ = components.Close() } // components are only read, so closing cannot lose data
	if components.Verifier != nil {
		if err := components.Verifier.SetSecrets(objects.Secrets); err != nil {
			done()
			return nil, nil, err
		}
	}
	publisher, err := publish.New(publish.Options{
		Place: place, Keys: loaded, Validity: f.validity, Now: time.Now, RecheckInterval: time.Hour,
		Components: components.Reader, RequiresSignature: components.SignatureFilter(), DecideRemovals: guard.decide,
	})
	if err != nil {
		done()
	}
	return publisher, done, err
}
