package publish

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// fleet publishes to all runtimes once. It decides about all module removals before the first push.
type fleet struct {
	publisher   *publish.Publisher
	catalog     *catalog.Snapshot
	rules       plan.Rules
	memory      savedState
	guard       *removalGuard
	kymas       []v1beta2.Kyma
	concurrency int
	progress    io.Writer
	dryRun      bool

	// The slices below have one element per Kyma.
	records  []publish.Record
	removing []plan.NewRemovals
	failed   []error
}

// publish publishes to all runtimes and returns the result for each. An error means that no bundle was pushed.
func (f *fleet) publish(ctx context.Context) ([]Result, error) {
	count := len(f.kymas)
	f.records, f.removing, f.failed = make([]publish.Record, count), make([]plan.NewRemovals, count), make([]error, count)
	owners, file := plan.NewOwners(f.kymas), f.memory.file
	for i := range f.kymas {
		kyma := &f.kymas[i]
		if err := owners.Check(kyma); err != nil {
			f.failed[i] = fmt.Errorf("Kyma %s: %w", kyma.Name, err)
		} else if file != nil {
			id := plan.RuntimeID(kyma)
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{Published: file.LastBundle(id), Removals: file.Removals(id)}
		}
	}
	if err := f.guard.approve(f.kymas); err != nil {
		return nil, err
	}
	f.forEach("resolving", func(i int) {
		if f.failed[i] != nil || plan.IsSkipped(&f.kymas[i]) {
			return
		}
		in, err := f.input(&f.kymas[i])
		if err == nil {
			f.removing[i], err = f.publisher.NewRemovals(ctx, &f.records[i], in)
		}
		f.failed[i] = err
	})
	f.guard.judge(f.rules, f.kymas, f.removing, time.Now())
	f.recordDecisions()
	if err := f.memory.saveFile(); err != nil {
		return nil, err
	}
	f.guard.print(f.progress, f.kymas, !f.dryRun && file != nil)
	rows := make([]Result, count)
	f.forEach("publishing", func(i int) { rows[i] = f.publishOne(ctx, i) })
	slices.SortFunc(rows, func(a, b Result) int { return strings.Compare(a.Runtime, b.Runtime) })
	return rows, nil
}

// recordDecisions stores the decisions about removals. If a removal is held and the runtime's last bundle is not
// recorded, publishing to this runtime fails. Without the record, the next bundle cannot keep the modules, and later
// runs would not count their removal.
func (f *fleet) recordDecisions() {
	for i := range f.kymas {
		if f.failed[i] != nil {
			continue
		}
		id, status := plan.RuntimeID(&f.kymas[i]), f.kymas[i].Status.Runtime
		if f.memory.file != nil {
			f.memory.file.SetRemovals(id, status.Removals)
		}
		if held := f.guard.verdicts[id].HeldModules(); len(held) > 0 && status.Published == nil {
			f.failed[i] = fmt.Errorf("the last bundle is not recorded in a state file, and the removal of modules waits "+
				"for approval: %s", strings.Join(held, ", "))
		}
	}
}

// forEach calls a function for each Kyma, with up to f.concurrency calls at once.
func (f *fleet) forEach(what string, call func(i int)) {
	advance, _ := terminal.Steps(f.progress, what, len(f.kymas))
	group := errgroup.Group{}
	group.SetLimit(max(f.concurrency, 1))
	for i := range f.kymas {
		group.Go(func() error {
			call(i)
			advance()
			return nil
		})
	}
	_ = group.Wait() // the functions record their errors
}

func (f *fleet) input(kyma *v1beta2.Kyma) (publish.Input, error) {
	if _, _, err := f.rules.SilenceTimeoutFor(kyma); err != nil {
		return publish.Input{}, err
	}
	request, err := f.rules.Request(kyma, nil)
	return publish.Input{Runtime: f.rules.Runtime(kyma, nil), Request: request, Catalog: f.catalog}, err
}

func (f *fleet) publishOne(ctx context.Context, i int) Result {
	kyma := &f.kymas[i]
	id := plan.RuntimeID(kyma)
	switch {
	case f.failed[i] != nil:
		return failedRow(id, f.failed[i])
	case plan.IsSkipped(kyma):
		return Result{Runtime: id, Action: "skipped", Modules: []string{}}
	}
	outcome, err := f.publishRecorded(ctx, i)
	if err != nil {
		return failedRow(id, err)
	}
	row := Result{
		Runtime: id, Action: "unchanged", Sequence: outcome.Published.Predicate.Sequence,
		Digest:   outcome.Published.Digest.String(),
		Removals: outcome.Published.Predicate.Removals, Problems: outcome.Problems, Modules: []string{},
		Reason: outcome.Reason, Held: slices.Sorted(maps.Keys(outcome.Removals.HeldReasons)),
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

func (f *fleet) publishRecorded(ctx context.Context, i int) (publish.Outcome, error) {
	kyma, record, file := &f.kymas[i], &f.records[i], f.memory.file
	id := plan.RuntimeID(kyma)
	defer record.Drop()
	for {
		if file != nil {
			kyma.Status.Runtime.Published = file.LastBundle(id)
		}
		in, err := f.input(kyma)
		if err != nil {
			return publish.Outcome{}, err
		}
		outcome, err := f.publisher.Publish(ctx, record, in)
		if err != nil || file == nil {
			return outcome, err
		}
		file.SetBundle(id, outcome.Published.StatusEntry())
		if !outcome.IsUnrecorded {
			file.SetRemovals(id, plan.RemovalStatuses(kyma.Status.Runtime.Removals, outcome.Removals, &outcome.Published,
				time.Now()))
			return outcome, nil
		}
		if err := f.memory.save(); err != nil {
			return outcome, err
		}
	}
}
