package selection

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
)

const changedAtOnce = 8

// Progress prints the results of a command for the selected runtimes: one line for each runtime, or a progress bar
// for many runtimes on a terminal. Progress always prints failures. It is safe for concurrent use.
type Progress struct {
	out     io.Writer
	total   int
	advance func()
	// showsBar is true if a progress bar replaces the lines of successful runtimes.
	showsBar bool

	mu           sync.Mutex // guards the fields below
	done, failed int
	// failures contains the failures to print after the progress bar. The field last is the latest failure.
	failures []error
	last     error
}

// NewProgress returns a Progress for a command that changes total runtimes. verb describes the work.
func NewProgress(cmd *cobra.Command, verb string, total int) *Progress {
	out := cmd.OutOrStdout()
	advance, shown := terminal.Steps(cmd.ErrOrStderr(), verb, total)
	return &Progress{out: out, total: total, advance: advance, showsBar: shown && cli.IsTerminal(out)}
}

// Done prints the result of a runtime.
func (p *Progress) Done(one Target, result string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.advance()
	if !p.showsBar {
		cli.Printf(p.out, "runtime %s %s\n", one.ID, result)
	}
}

// Fail prints a runtime's error. If the command changes a single runtime, Fail prints nothing, because End returns the
// error.
func (p *Progress) Fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed++
	p.last = err
	p.advance()
	switch {
	case p.total == 1:
	case p.showsBar:
		p.failures = append(p.failures, err)
	default:
		cli.Printf(p.out, "failed: %v\n", err)
	}
}

// End prints the summary. It returns an error if a runtime failed, or if the context ended before all runtimes were
// changed.
func (p *Progress) End(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, err := range p.failures {
		cli.Printf(p.out, "failed: %v\n", err)
	}
	all := terminal.Pluralize(p.total, "runtime")
	open := p.total - p.done - p.failed
	switch {
	case p.total == 1 && p.last != nil:
		return p.last
	case open > 0:
		return fmt.Errorf("interrupted: %d of %s done, %d failed, %d not done: %w", p.done, all, p.failed, open, ctx.Err())
	case p.failed > 0:
		return fmt.Errorf("%d of %s failed", p.failed, all)
	case p.total > 1:
		cli.Printf(p.out, "%s changed\n", all)
	}
	return nil
}

// ForEach calls do for each runtime, for up to eight runtimes at once. After the context ends, it does not start more
// calls.
func ForEach(ctx context.Context, all []Target, do func(Target)) {
	var group errgroup.Group
	group.SetLimit(changedAtOnce)
	for _, one := range all {
		group.Go(func() error {
			if ctx.Err() == nil {
				do(one)
			}
			return nil
		})
	}
	_ = group.Wait() // do returns no error
}
