// Package publish implements the command that publishes bundles without a control plane.
package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
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
}

// New returns the command publish.
func New(*cli.Root) *cobra.Command {
	f := &publishFlags{}
	cmd := &cobra.Command{
		Use: "publish", Short: "publish YAML files to runtimes without a Kubernetes control plane",
		Args: cli.Exactly(0, "no arguments"),
		Long: "publish reads Kymas, ModuleTemplates and ModuleReleaseMetas from a folder or Git repository, resolves " +
			"them and pushes one signed bundle per Kyma.\n" +
			"It skips runtimes whose bundle is up to date, so a second run pushes nothing. A commit of a Git repository must " +
			"descend from\nthe commit of the last run. Annotations and " +
			"labels of Kymas have the same\n" +
			"effect as with `run`; settings that require a control plane are reported and ignored.\n" +
			"The exit code is 1 if publishing to a runtime failed, if a Watcher is invalid, or if a requested module did " +
			"not resolve. In the\nlatter case, the bundle contains the other modules. Other runtimes are not affected.",
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
	cli.OutputFlag(flags, &f.format)
	f.registry.AddFlags(flags)
	return cmd
}

// Result is the outcome for one runtime.
type Result struct {
	Runtime string `json:"runtime"`
	// Action is pushed, would-push, unchanged, skipped or failed. Reason explains it.
	Action   string           `json:"action"`
	Reason   plan.Reason      `json:"reason,omitempty"`
	Sequence int64            `json:"sequence,omitempty"`
	Digest   string           `json:"digest,omitempty"`
	Modules  []string         `json:"modules"`
	Removals []string         `json:"removals,omitempty"`
	Problems []bundle.Problem `json:"problems,omitempty"`
	Registry string           `json:"registry,omitempty"`
	Error    string           `json:"error,omitempty"`
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
	if err := f.settings.NameOnly(); err != nil {
		return err
	}
	settings, err := f.settings.Settings()
	if err != nil {
		return err
	}
	rollbacks, err := f.settings.Rollbacks()
	if err != nil {
		return err
	}
	carried, err := f.settings.CopiedLabels()
	if err != nil {
		return err
	}
	maintenance, err := f.maintenance.Maintenance(func(remark string) {
		cli.Printf(cmd.ErrOrStderr(), "--maintenance-policy: %s\n", remark)
	})
	if err != nil {
		return err
	}
	watchers, refused := plan.CheckWatchers(objects.Watchers)
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		cli.Printf(cmd.ErrOrStderr(), "not published: %v\n", refused[name])
	}
	publisher, done, err := f.publisher(ctx, objects)
	if err != nil {
		return err
	}
	defer done()
	if len(objects.Kymas) == 0 {
		return fmt.Errorf("--from %s contains no Kyma, so there is no runtime to publish to", f.from)
	}
	rules := plan.Rules{
		Settings: settings, AgentRollbackFrom: rollbacks, KymaLabels: carried, Watchers: watchers,
		Maintenance: maintenance, Root: publisher.Root(), Source: loaded.Source,
	}
	kymas := prepareOffline(objects, cmd.ErrOrStderr())
	file, err := f.openState(ctx, publisher.Place, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	memory := savedState{file: file, flush: store.Batch(publisher.Place)}
	if err := f.acceptCommit(ctx, loaded, file); err != nil {
		return errors.Join(err, memory.close())
	}
	rows := f.publishAll(ctx, publisher, kymas, snapshot, rules, memory, cmd.ErrOrStderr())
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

// wouldPush marks the rows of a dry run. It clears their sequence and digest, because a real run would push bundles
// with different values.
func wouldPush(rows []Result) {
	for i := range rows {
		if rows[i].Action == "pushed" {
			rows[i].Action, rows[i].Sequence, rows[i].Digest = "would-push", 0, ""
		}
	}
}

// verdict returns an error with all runtimes and Watchers that were not published.
func (f *publishFlags) verdict(rows []Result, refusedWatchers []string) error {
	var failed, unresolved, problems []string
	for _, row := range rows {
		if row.Error != "" {
			failed = append(failed, row.Runtime)
		}
		if slices.ContainsFunc(row.Problems, func(p bundle.Problem) bool { return p.State != v1beta2.StateReady }) {
			unresolved = append(unresolved, row.Runtime)
		}
	}
	if len(failed) > 0 {
		problems = append(problems, fmt.Sprintf("publishing to %d of %d runtimes failed (%s)", len(failed), len(rows),
			terminal.JoinRuntimes(slices.Compact(failed))))
	}
	if len(refusedWatchers) > 0 {
		problems = append(problems, "invalid Watchers were not published: "+strings.Join(refusedWatchers, ", "))
	}
	switch {
	case len(problems) > 0:
		return errors.New(strings.Join(problems, "; "))
	case len(unresolved) > 0 && !f.allowUnresolved:
		return fmt.Errorf(
			"modules of %d of %d runtimes did not resolve (%s): fix the listed problems, or set "+
				"--allow-unresolved", len(unresolved), len(rows), terminal.JoinRuntimes(unresolved))
	}
	return nil
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

func (f *publishFlags) publisher(ctx context.Context, objects source.Objects) (*publish.Publisher, func(), error) {
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
		f.concurrency = 1 // an OCI layout has one index file
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
		Components: components.Reader, RequiresSignature: components.SignatureFilter(),
	})
	if err != nil {
		done()
	}
	return publisher, done, err
}

func (f *publishFlags) publishAll(
	ctx context.Context, publisher *publish.Publisher, kymas []v1beta2.Kyma, snapshot *catalog.Snapshot,
	rules plan.Rules, memory savedState, progress io.Writer,
) []Result {
	rows, owners := make([]Result, len(kymas)), plan.NewOwners(kymas)
	advance, _ := terminal.Steps(progress, "publishing", len(kymas))
	group := errgroup.Group{}
	group.SetLimit(max(f.concurrency, 1))
	for i := range kymas {
		group.Go(func() error {
			if err := owners.Check(&kymas[i]); err != nil {
				rows[i] = failedRow(plan.RuntimeID(&kymas[i]), fmt.Errorf("Kyma %s: %w", kymas[i].Name, err))
			} else {
				rows[i] = publishOne(ctx, publisher, &kymas[i], snapshot, rules, memory)
			}
			advance()
			return nil
		})
	}
	_ = group.Wait() // each row contains its own error
	slices.SortFunc(rows, func(a, b Result) int { return strings.Compare(a.Runtime, b.Runtime) })
	return rows
}

func failedRow(runtime string, err error) Result {
	return Result{Runtime: runtime, Action: "failed", Modules: []string{}, Error: err.Error()}
}

func publishOne(
	ctx context.Context, publisher *publish.Publisher, kyma *v1beta2.Kyma, snapshot *catalog.Snapshot, rules plan.Rules,
	memory savedState,
) Result {
	id := plan.RuntimeID(kyma)
	if plan.IsSkipped(kyma) {
		return Result{Runtime: id, Action: "skipped", Modules: []string{}}
	}
	outcome, err := publishRecorded(ctx, publisher, kyma, snapshot, rules, memory)
	if err != nil {
		return failedRow(id, err)
	}
	row := Result{
		Runtime: id, Action: "unchanged", Sequence: outcome.Published.Predicate.Sequence,
		Digest:   outcome.Published.Digest.String(),
		Removals: outcome.Published.Predicate.Removals, Problems: outcome.Problems, Modules: []string{},
		Reason: outcome.Reason,
	}
	if outcome.IsPushed {
		row.Action = "pushed"
	}
	if d := outcome.Deviation; d != nil {
		row.Registry = d.Reason + ": " + d.Message
	}
	versions := resolve.ModuleVersions(outcome.Published.State)
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		row.Modules = append(row.Modules, name+"@"+versions[name])
	}
	return row
}

func publishRecorded(
	ctx context.Context, publisher *publish.Publisher, kyma *v1beta2.Kyma, snapshot *catalog.Snapshot, rules plan.Rules,
	memory savedState,
) (publish.Outcome, error) {
	if _, _, err := rules.SilenceTimeoutFor(kyma); err != nil {
		return publish.Outcome{}, err
	}
	id, record := plan.RuntimeID(kyma), publish.Record{}
	defer publisher.DropRecord(&record)
	for {
		if memory.file != nil {
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{Published: memory.file.LastBundle(id)}
		}
		request, err := rules.Request(kyma, nil)
		if err != nil {
			return publish.Outcome{}, err
		}
		outcome, err := publisher.Publish(ctx, &record,
			publish.Input{Runtime: rules.Runtime(kyma, nil), Request: request, Catalog: snapshot})
		if err != nil || memory.file == nil {
			return outcome, err
		}
		memory.file.SetBundle(id, outcome.Published.StatusEntry())
		if !outcome.IsUnrecorded {
			return outcome, nil
		}
		if err := memory.save(); err != nil {
			return outcome, err
		}
	}
}

func drawPublished(out io.Writer, rows []Result) {
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"RUNTIME", "ACTION", "REASON", "SEQUENCE", "DIGEST", "MODULES", "PROBLEMS"})
	for _, row := range rows {
		problems := make([]string, 0, len(row.Problems))
		for _, p := range row.Problems {
			problems = append(problems, p.Message)
		}
		for _, text := range []string{row.Registry, row.Error} {
			if text != "" {
				problems = append(problems, text)
			}
		}
		t.AppendRow(table.Row{
			row.Runtime, row.Action, row.Reason, row.Sequence, terminal.ShortDigest(row.Digest), strings.Join(row.Modules, ", "),
			problems,
		})
	}
	t.Render()
}
