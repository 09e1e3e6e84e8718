// Package teller is how a command tells a story: it prints what happens step by step, a spinner with the time on a terminal while a step goes on,
// plain lines elsewhere. The story's files are in a folder that the next one empties.
package teller

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

// Tell runs a command's story until it ends or somebody interrupts it, in a folder that is empty and whose absolute path it gives. A story that
// fails ends the process with exit code 1.
func Tell(name, dir string, story func(ctx context.Context, dir string) error) {
	log.SetLogger(logr.Discard()) // the steps say what happens
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	absolute, err := emptied(dir)
	if err == nil {
		err = story(ctx, absolute)
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

// Teller prints steps, which it numbers.
type Teller struct {
	out      *os.File
	terminal bool
	number   int
}

// New returns one that prints to a file.
func New(out *os.File) *Teller {
	return &Teller{out: out, terminal: term.IsTerminal(int(out.Fd()))}
}

// Step tells that something begins, lets it happen, and tells how it ended.
func (t *Teller) Step(title string, happens func() error) error {
	t.number++
	title = fmt.Sprintf("%d. %s", t.number, title)
	started := time.Now()
	stop := t.spin(title)
	err := happens()
	stop()
	mark := "✓"
	if err != nil {
		mark = "✗"
	}
	fmt.Fprintf(t.out, "%s %s (%s)\n", mark, title, time.Since(started).Round(100*time.Millisecond))
	return err
}

func (t *Teller) spin(title string) func() {
	if !t.terminal {
		fmt.Fprintf(t.out, "… %s\n", title)
		return func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(t.out), progressbar.OptionSetDescription(title),
		progressbar.OptionSpinnerType(14), progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish())
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				_ = bar.Finish() // drawing is a courtesy
				return
			case <-tick.C:
				_ = bar.Add(1)
			}
		}
	}()
	return func() { close(done); <-stopped }
}
