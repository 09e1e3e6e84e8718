// Package steps prints the progress of a command's steps: with a spinner and the elapsed time on a terminal, or as
// plain lines.
package steps

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Main empties the folder dir and calls command with its absolute path. SIGINT and SIGTERM cancel the context. If the
// command fails, Main prints the error and exits with code 1.
func Main(name, dir string, command func(ctx context.Context, dir string) error) {
	log.SetLogger(logr.Discard()) // discard logs, which would interrupt the printed steps
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	absolute, err := emptied(dir)
	if err == nil {
		err = command(ctx, absolute)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func emptied(dir string) (string, error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// Printer numbers and prints steps.
type Printer struct {
	out      *os.File
	terminal bool
	number   int
}

// New returns a Printer that prints to a file.
func New(out *os.File) *Printer {
	return &Printer{out: out, terminal: term.IsTerminal(int(out.Fd()))}
}

// Step runs one step and prints its start and its result.
func (p *Printer) Step(title string, run func() error) error {
	p.number++
	title = fmt.Sprintf("%d. %s", p.number, title)
	started := time.Now()
	stop := p.spin(title)
	err := run()
	stop()
	mark := "✓"
	if err != nil {
		mark = "✗"
	}
	fmt.Fprintf(p.out, "%s %s (%s)\n", mark, title, time.Since(started).Round(100*time.Millisecond))
	return err
}

func (p *Printer) spin(title string) func() {
	if !p.terminal {
		fmt.Fprintf(p.out, "… %s\n", title)
		return func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(title),
		progressbar.OptionSpinnerType(14), progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish())
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				_ = bar.Finish() // a drawing error must not fail the step
				return
			case <-tick.C:
				_ = bar.Add(1)
			}
		}
	}()
	return func() { close(done); <-stopped }
}
