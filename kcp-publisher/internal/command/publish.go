package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/control"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/source"
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
	attachCosign     bool
	git              gitFlags
}

func newPublish(*cli.Root) *cobra.Command {
	f := &publishFlags{}
	cmd := &cobra.Command{
		Use: "publish", Short: "publishes a folder of YAML, or that of a commit, to its runtimes, without any Kubernetes", Args: cli.Exactly(0, "no arguments"),
		Long: "publish reads Kymas, ModuleTemplates and ModuleReleaseMetas from a folder or a Git repository, resolves them and pushes one signed bundle per Kyma.\n" +
			"A runtime whose bundle says what it should say already is left alone: a second run pushes nothing.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "folder with YAML files, or URL of a Git repository with them; common transport archives below are component sources too")
	f.git.add(flags)
	flags.StringVar(&f.to, "to", "", "registry prefix HOST/PATH, or oci-layout:DIR")
	f.components.add(flags)
	f.settings.add(flags)
	f.maintenance.add(flags)
	flags.DurationVar(&f.validity, "validity", defaultValidity, "life of a bundle; it is renewed after a third")
	flags.IntVar(&f.concurrency, "concurrency", 8, "runtimes to work on at once")
	publisherKeyFlags(flags, &f.keys)
	cli.OutputFlag(flags, &f.format)
	f.registry.AddFlags(flags)
	attachFlag(flags, &f.attachCosign)
	return cmd
}

func attachFlag(flags *pflag.FlagSet, into *bool) {
	flags.BoolVar(into, "attach-cosign", false, "also push a signature of every new bundle as an OCI referrer, for `cosign verify`")
}

// defaultValidity is the life of a bundle: long enough for a weekend's outage, short enough that a freeze is noticed.
const defaultValidity = 7 * 24 * time.Hour

// published is one row of what `publish` prints.
type published struct {
	Runtime  string           `json:"runtime"`
	Action   string           `json:"action"`
	Sequence int64            `json:"sequence,omitempty"`
	Digest   string           `json:"digest,omitempty"`
	Modules  []string         `json:"modules"`
	Removals []string         `json:"removals,omitempty"`
	Problems []bundle.Problem `json:"problems,omitempty"`
	Error    string           `json:"error,omitempty"`
}

func (f *publishFlags) run(cmd *cobra.Command) error {
	if f.from == "" || f.to == "" {
		return cli.Usage(errors.New("--from and --to are required"))
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	loaded, err := f.git.load(ctx, "--from", f.from, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer loaded.close()
	objects := loaded.objects
	snapshot, err := catalog.New(objects.Templates, objects.Metas)
	if err != nil {
		return err
	}
	if err := checkRuntimes(objects.Kymas); err != nil {
		return err
	}
	settings, err := f.settings.settings()
	if err != nil {
		return err
	}
	maintenance, err := f.maintenance.maintenance(func(remark string) { fmt.Fprintf(cmd.ErrOrStderr(), "--maintenance-policy: %s\n", remark) })
	if err != nil {
		return err
	}
	watchers, refused := control.JudgeWatchers(objects.Watchers)
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		problems = append(problems, refused[name])
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	publisher, done, err := f.publisher(ctx, objects)
	if err != nil {
		return err
	}
	defer done()
	request := func(kyma *v1beta2.Kyma) (resolve.Request, error) {
		schedule, err := maintenance.Schedule(kyma)
		return resolve.Request{
			Labels: kyma.Labels, Seed: kyma.Spec, Asked: kyma.Spec, Settings: settings, Watchers: watchers, Maintenance: schedule,
		}, err
	}
	rows := f.publishAll(ctx, publisher, objects.Kymas, snapshot, request, loaded.source, cmd.ErrOrStderr())
	if err := cli.Print(cmd.OutOrStdout(), f.format, rows, func(out io.Writer) { drawPublished(out, rows) }); err != nil {
		return err
	}
	failed := 0
	for _, row := range rows {
		if row.Error != "" {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d runtimes could not be published", failed, len(rows))
	}
	return nil
}

// checkRuntimes refuses two Kymas of one runtime: they would overwrite each other for ever.
func checkRuntimes(kymas []v1beta2.Kyma) error {
	seen := map[string]string{}
	for i := range kymas {
		id := control.RuntimeID(&kymas[i])
		if err := trust.CheckRuntimeID(id); err != nil {
			return fmt.Errorf("Kyma %s: %w", kymas[i].Name, err)
		}
		if other, ok := seen[id]; ok {
			return fmt.Errorf("Kyma %s: has the runtime id %s of Kyma %s: change its label %s", kymas[i].Name, id, other, v1beta2.LabelRuntimeID)
		}
		seen[id] = kymas[i].Name
	}
	return nil
}

// publisher gives the publisher and what ends its use of files.
func (f *publishFlags) publisher(ctx context.Context, objects source.Objects) (*publish.Publisher, func(), error) {
	place, registries, err := f.registry.Open("--to", f.to, store.Access{})
	if err != nil {
		return nil, nil, err
	}
	loaded, err := f.keys.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := loaded.PublishRoots(ctx, place); err != nil {
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
		Place: place, Keys: loaded, Validity: f.validity, Now: time.Now, Components: components.reader, Requires: components.requires(),
		AttachCosign: f.attachCosign,
	})
	if err != nil {
		done()
	}
	return publisher, done, err
}

// requests gives what a Kyma asks for.
type requests func(*v1beta2.Kyma) (resolve.Request, error)

func (f *publishFlags) publishAll(ctx context.Context, publisher *publish.Publisher, kymas []v1beta2.Kyma, snapshot *catalog.Snapshot, request requests, from *bundle.Source, progress io.Writer) []published {
	rows := make([]published, len(kymas))
	advance := cli.Steps(progress, "publishing", len(kymas))
	group := errgroup.Group{}
	group.SetLimit(max(f.concurrency, 1))
	for i := range kymas {
		group.Go(func() error {
			rows[i] = publishOne(ctx, publisher, &kymas[i], snapshot, request, from)
			advance()
			return nil
		})
	}
	_ = group.Wait() // the rows hold the errors
	slices.SortFunc(rows, func(a, b published) int { return strings.Compare(a.Runtime, b.Runtime) })
	return rows
}

func publishOne(ctx context.Context, publisher *publish.Publisher, kyma *v1beta2.Kyma, snapshot *catalog.Snapshot, request requests, from *bundle.Source) published {
	id := control.RuntimeID(kyma)
	var outcome publish.Outcome
	asked, err := request(kyma)
	if err == nil {
		outcome, err = publisher.Publish(ctx, publish.Runtime{ID: id, Audience: bundle.Audience{Runtime: id}, Source: from}, asked, snapshot)
	}
	if err != nil {
		return published{Runtime: id, Action: "failed", Modules: []string{}, Error: err.Error()}
	}
	row := published{
		Runtime: id, Action: "unchanged", Sequence: outcome.Published.Predicate.Sequence, Digest: outcome.Published.Digest.String(),
		Removals: outcome.Published.Predicate.Removals, Problems: outcome.Problems, Modules: []string{},
	}
	if outcome.Pushed {
		row.Action = "pushed"
	}
	versions := resolve.Versions(outcome.Published.State)
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		row.Modules = append(row.Modules, name+"@"+versions[name])
	}
	return row
}

func drawPublished(out io.Writer, rows []published) {
	t := newTable(out)
	t.AppendHeader(table.Row{"RUNTIME", "ACTION", "SEQUENCE", "DIGEST", "MODULES", "PROBLEMS"})
	for _, row := range rows {
		problems := make([]string, 0, len(row.Problems))
		for _, p := range row.Problems {
			problems = append(problems, p.Message)
		}
		if row.Error != "" {
			problems = append(problems, row.Error)
		}
		t.AppendRow(table.Row{row.Runtime, row.Action, row.Sequence, shortDigest(row.Digest), strings.Join(row.Modules, ", "), strings.Join(problems, "\n")})
	}
	t.Render()
}
