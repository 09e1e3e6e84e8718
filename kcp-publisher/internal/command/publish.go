package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/source"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish/statefile"
)

// publishFlags are what `publish` takes.
type publishFlags struct {
	from, to, format string
	keys             keys.Folder
	components       componentFlags
	settings         settingsFlags
	maintenance      maintenanceFlags
	validity         time.Duration
	concurrency      int
	registry         cli.Registry
	restricted       []string
	attachCosign     bool
	git              gitFlags
	state            string
	dryRun           bool
	allowUnresolved  bool
}

func newPublish(*cli.Root) *cobra.Command {
	f := &publishFlags{}
	cmd := &cobra.Command{
		Use: "publish", Short: "publishes a folder of YAML, or that of a commit, to its runtimes, without any Kubernetes", Args: cli.Exactly(0, "no arguments"),
		Long: "publish reads Kymas, ModuleTemplates and ModuleReleaseMetas from a folder or a Git repository, resolves them and pushes one signed bundle per Kyma.\n" +
			"A runtime whose bundle says what it should say already is left alone: a second run pushes nothing. Annotations and labels of Kymas mean\n" +
			"what they mean to `run`; what needs a control plane is named and ignored.\n" +
			"The exit code is 1 when a runtime could not be published, or a module that it asks for did not resolve: its bundle is published with what did.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "folder with YAML files, or URL of a Git repository with them; common transport archives below are component sources too")
	f.git.add(flags)
	flags.StringVar(&f.to, "to", "", "registry prefix HOST/PATH, or oci-layout:DIR")
	f.components.add(flags)
	f.settings.add(flags)
	restrictedFlag(flags, &f.restricted)
	f.maintenance.add(flags)
	flags.DurationVar(&f.validity, "validity", defaultValidity, "how long a bundle is valid, at least; it is renewed after a third of it")
	flags.IntVar(&f.concurrency, "concurrency", 8, "runtimes to work on at once")
	publisherKeyFlags(flags, &f.keys)
	flags.StringVar(&f.state, "state", "", "state file that remembers what was published, so that no old bundle in the registry counts; default: published.json in the folder of --keys")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only show what would be pushed, and write nothing")
	flags.BoolVar(&f.allowUnresolved, "allow-unresolved", false, "end with exit code 0 although modules did not resolve")
	cli.OutputFlag(flags, &f.format)
	f.registry.AddFlags(flags)
	attachFlag(flags, &f.attachCosign)
	return cmd
}

// restrictedFlag is spelled as lifecycle-manager has it.
func restrictedFlag(flags *pflag.FlagSet, into *[]string) {
	flags.StringSliceVar(into, "restricted-default-modules", nil, "modules that only Kymas get which the kymaSelector of the module's ModuleReleaseMeta selects, and nobody where it has none; separated by commas")
}

func attachFlag(flags *pflag.FlagSet, into *bool) {
	flags.BoolVar(into, "attach-cosign", false, "also push a signature of every new bundle as an OCI referrer, for cosign verify")
}

// defaultValidity is how long a bundle is valid: long enough for a weekend's outage, short enough that a freeze is
// noticed.
const defaultValidity = 7 * 24 * time.Hour

// published is one row of what `publish` prints.
type published struct {
	Runtime string `json:"runtime"`
	// Action is pushed, would-push, unchanged, skipped or failed; Reason is why a bundle was pushed.
	Action   string           `json:"action"`
	Reason   plan.Reason      `json:"reason,omitempty"`
	Sequence int64            `json:"sequence,omitempty"`
	Digest   string           `json:"digest,omitempty"`
	Modules  []string         `json:"modules"`
	Removals []string         `json:"removals,omitempty"`
	Problems []bundle.Problem `json:"problems,omitempty"`
	// Registry is what was wrong in the registry before.
	Registry string `json:"registry,omitempty"`
	Error    string `json:"error,omitempty"`
}

func (f *publishFlags) run(cmd *cobra.Command) error {
	if err := cli.RequireFlags(cli.Required{Flag: "--from", Given: f.from != ""}, cli.Required{Flag: "--to", Given: f.to != ""}); err != nil {
		return err
	}
	ctx := cmd.Context()
	loaded, err := f.git.load(ctx, "--from", f.from, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer loaded.close()
	objects := loaded.objects
	snapshot, err := catalog.New(objects.Templates, objects.Metas, f.restricted...)
	if err != nil {
		return err
	}
	if err := checkOwners(objects.Kymas); err != nil {
		return err
	}
	if err := f.settings.nameOnly(); err != nil {
		return err
	}
	settings, err := f.settings.settings()
	if err != nil {
		return err
	}
	carried, err := f.settings.carried()
	if err != nil {
		return err
	}
	maintenance, err := f.maintenance.maintenance(func(remark string) { fmt.Fprintf(cmd.ErrOrStderr(), "--maintenance-policy: %s\n", remark) })
	if err != nil {
		return err
	}
	watchers, err := allWatchers(objects.Watchers)
	if err != nil {
		return err
	}
	publisher, done, err := f.publisher(ctx, objects)
	if err != nil {
		return err
	}
	defer done()
	if len(objects.Kymas) == 0 {
		return fmt.Errorf("--from %s: there is no Kyma in it, and so no runtime to publish to", f.from)
	}
	rules := plan.Rules{Settings: settings, KymaLabels: carried, Watchers: watchers, Maintenance: maintenance, Root: publisher.Root(), Source: loaded.source}
	kymas := offline(objects, cmd.ErrOrStderr())
	file, err := f.memory(ctx, publisher.Place, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	memory := memory{file: file, flush: store.Batch(publisher.Place)}
	rows := f.publishAll(ctx, publisher, kymas, snapshot, rules, memory, cmd.ErrOrStderr())
	if err := errors.Join(memory.save(), memory.close()); err != nil {
		return err
	}
	if f.dryRun {
		wouldPush(rows)
	}
	if err := cli.Print(cmd.OutOrStdout(), f.format, rows, func(out io.Writer) { drawPublished(out, rows) }); err != nil {
		return err
	}
	return f.verdict(rows)
}

// wouldPush says of what a dry run pushed that it is in no registry. Sequence and digest will be others.
func wouldPush(rows []published) {
	for i := range rows {
		if rows[i].Action == "pushed" {
			rows[i].Action, rows[i].Sequence, rows[i].Digest = "would-push", 0, ""
		}
	}
}

// verdict returns why the fleet is not published as it was asked for.
func (f *publishFlags) verdict(rows []published) error {
	failed, unresolved := 0, []string{}
	for _, row := range rows {
		if row.Error != "" {
			failed++
		}
		if slices.ContainsFunc(row.Problems, func(p bundle.Problem) bool { return p.State != v1beta2.StateReady }) {
			unresolved = append(unresolved, row.Runtime)
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d runtimes could not be published", failed, len(rows))
	case len(unresolved) > 0 && !f.allowUnresolved:
		return fmt.Errorf("modules of %d of %d runtimes did not resolve (%s): see their problems; with --allow-unresolved this is no failure", len(unresolved), len(rows), named(unresolved))
	}
	return nil
}

// checkOwners refuses Kymas whose runtime is another's.
func checkOwners(kymas []v1beta2.Kyma) error {
	owners := plan.NewOwners(kymas)
	var problems []error
	for i := range kymas {
		if err := owners.Check(&kymas[i]); err != nil {
			problems = append(problems, fmt.Errorf("Kyma %s: %w", kymas[i].Name, err))
		}
	}
	return errors.Join(problems...)
}

// allWatchers returns what runtimes are to watch, or why not all of it can be.
func allWatchers(all []v1beta2.Watcher) ([]bundle.Watcher, error) {
	watchers, refused := plan.JudgeWatchers(all)
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		problems = append(problems, refused[name])
	}
	return watchers, errors.Join(problems...)
}

// offline returns the Kymas as they can be planned without a control plane, and says what is ignored of the files.
func offline(objects source.Objects, out io.Writer) []v1beta2.Kyma {
	for _, p := range objects.Policies {
		fmt.Fprintf(out, "RolloutPolicy %s is ignored: only a control plane rolls out in waves: every runtime gets its channel's version\n", p.Name)
	}
	kymas := make([]v1beta2.Kyma, len(objects.Kymas))
	for i := range objects.Kymas {
		known, ignored := plan.Offline(&objects.Kymas[i])
		for _, line := range ignored {
			fmt.Fprintln(out, line)
		}
		kymas[i] = *known
	}
	return kymas
}

// publisher returns the publisher and what ends its use of files.
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
	if err := checkKeys(ctx, loaded, place); err != nil {
		return nil, nil, err
	}
	if store.IsLayout(place) {
		f.concurrency = 1 // an OCI layout has one index file, which one writer at a time may replace
	}
	components, err := f.components.open(registries, objects.Components, time.Hour, time.Hour)
	if err != nil {
		return nil, nil, err
	}
	done := func() { _ = components.close() } // they were only read
	if components.verifier != nil {
		if err := components.verifier.TakeSecrets(objects.Secrets); err != nil {
			done()
			return nil, nil, err
		}
	}
	publisher, err := publish.New(publish.Options{
		Place: place, Keys: loaded, Validity: f.validity, Now: time.Now, Recheck: time.Hour, Components: components.reader, Requires: components.requires(),
		AttachCosign: f.attachCosign,
	})
	if err != nil {
		done()
	}
	return publisher, done, err
}

// checkKeys refuses keys with which no agent would accept what is signed.
func checkKeys(ctx context.Context, loaded publish.Keys, place store.Store) error {
	if err := loaded.Fit(time.Now()); err != nil {
		return err
	}
	return loaded.CheckNewest(ctx, place)
}

// memory opens the state file, and says what follows when there is none. Nil remembers nothing, where a folder cannot
// be written.
func (f *publishFlags) memory(ctx context.Context, place store.Store, out io.Writer) (*statefile.File, error) {
	location := place.String()
	if dir, layout := strings.CutPrefix(location, store.LayoutScheme); layout {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("--to: %w", err)
		}
		location = store.LayoutScheme + absolute
	}
	path := cmp.Or(f.state, filepath.Join(f.keys.Dir, "published.json"))
	const consequence = "Modules that do not resolve now are left out of their bundles until they do."
	if f.dryRun {
		return statefile.Read(path, location)
	}
	memory, err := statefile.Open(ctx, path, location)
	switch {
	case err != nil && f.state == "" && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)):
		fmt.Fprintf(out, "nothing is remembered between runs (%v): name a writable file with --state. %s\n", err, consequence)
		return nil, nil
	case err == nil && memory.New:
		fmt.Fprintf(out, "state file %s is new: nothing is remembered of earlier runs. %s\n", path, consequence)
	}
	return memory, err
}

// memory is the state file, nil where nothing is remembered, and what writes the index of a folder.
type memory struct {
	file  *statefile.File
	flush func() error
}

// save writes first what was published and then that it was: what is remembered is in the folder.
func (m memory) save() error {
	if err := m.flush(); err != nil || m.file == nil {
		return err
	}
	return m.file.Save()
}

func (m memory) close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

func (f *publishFlags) publishAll(ctx context.Context, publisher *publish.Publisher, kymas []v1beta2.Kyma, snapshot *catalog.Snapshot, rules plan.Rules, memory memory, progress io.Writer) []published {
	rows := make([]published, len(kymas))
	advance := cli.Steps(progress, "publishing", len(kymas))
	group := errgroup.Group{}
	group.SetLimit(max(f.concurrency, 1))
	for i := range kymas {
		group.Go(func() error {
			rows[i] = publishOne(ctx, publisher, &kymas[i], snapshot, rules, memory)
			advance()
			return nil
		})
	}
	_ = group.Wait() // the rows hold the errors
	slices.SortFunc(rows, func(a, b published) int { return strings.Compare(a.Runtime, b.Runtime) })
	return rows
}

func publishOne(ctx context.Context, publisher *publish.Publisher, kyma *v1beta2.Kyma, snapshot *catalog.Snapshot, rules plan.Rules, memory memory) published {
	id := plan.RuntimeID(kyma)
	if plan.Skipped(kyma) {
		return published{Runtime: id, Action: "skipped", Modules: []string{}}
	}
	outcome, err := publishRemembered(ctx, publisher, kyma, snapshot, rules, memory)
	if err != nil {
		return published{Runtime: id, Action: "failed", Modules: []string{}, Error: err.Error()}
	}
	row := published{
		Runtime: id, Action: "unchanged", Sequence: outcome.Published.Predicate.Sequence, Digest: outcome.Published.Digest.String(),
		Removals: outcome.Published.Predicate.Removals, Problems: outcome.Problems, Modules: []string{}, Reason: outcome.Reason,
	}
	if outcome.Pushed {
		row.Action = "pushed"
	}
	if d := outcome.Deviation; d != nil {
		row.Registry = d.Reason + ": " + d.Message
	}
	versions := resolve.Versions(outcome.Published.State)
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		row.Modules = append(row.Modules, name+"@"+versions[name])
	}
	return row
}

// publishRemembered publishes what a Kyma asks for after what is remembered, and remembers it.
func publishRemembered(ctx context.Context, publisher *publish.Publisher, kyma *v1beta2.Kyma, snapshot *catalog.Snapshot, rules plan.Rules, memory memory) (publish.Outcome, error) {
	if _, _, err := rules.Allowed(kyma); err != nil {
		return publish.Outcome{}, err
	}
	id, record := plan.RuntimeID(kyma), publish.Record{}
	defer publisher.Release(&record)
	for {
		if memory.file != nil {
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{Published: memory.file.Last(id)}
		}
		request, err := rules.Request(kyma, nil)
		if err != nil {
			return publish.Outcome{}, err
		}
		outcome, err := publisher.Publish(ctx, &record, rules.Runtime(kyma, nil), request, snapshot)
		if err != nil || memory.file == nil {
			return outcome, err
		}
		memory.file.Remember(id, outcome.Published.Record())
		if !outcome.Unrecorded {
			return outcome, nil
		}
		if err := memory.save(); err != nil {
			return outcome, err
		}
	}
}

func drawPublished(out io.Writer, rows []published) {
	t := newTable(out)
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
		t.AppendRow(table.Row{row.Runtime, row.Action, row.Reason, row.Sequence, shortDigest(row.Digest), strings.Join(row.Modules, ", "), problems})
	}
	t.Render()
}
