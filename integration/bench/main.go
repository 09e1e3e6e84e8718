// Command bench measures operations that users of kyma-pull wait for. It prints a table and writes it to
// bench/results.txt. Times on a shared machine vary, so the table shows ratios between measurements of the same run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/jedib0t/go-pretty/v6/table"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// result is one row of the printed table.
type result struct {
	what, figure, goal string
}

func main() {
	only := flag.String("only", "", "measure only benchmarks whose name contains this text")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	if err := run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	var results []result
	for _, measure := range []struct {
		name string
		run  func(context.Context) ([]result, error)
	}{
		{"sizes of the programs", sizes},
		{"signing and verifying", measureSigning},
		{"resolving", measureResolving},
		{"rendering charts", measureRendering},
		{"publishing to a fleet", measurePublishing},
		{"memory of the agent", measureMemory},
		{"checks of modules", measureChecks},
		{"carrying files", measureTransfer},
	} {
		if !strings.Contains(measure.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "bench: %s …\n", measure.name)
		found, err := measure.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", measure.name, err)
		}
		results = append(results, found...)
	}
	if err := os.MkdirAll("bench", 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join("bench", "results.txt"))
	if err != nil {
		return err
	}
	draw(io.MultiWriter(os.Stdout, file), results)
	return file.Close()
}

func draw(out io.Writer, results []result) {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.SetTitle(fmt.Sprintf("%s, %d cores, %s", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(),
		runtime.Version()))
	t.AppendHeader(table.Row{"MEASURED", "FIGURE", "GOAL"})
	for _, r := range results {
		t.AppendRow(table.Row{r.what, r.figure, r.goal})
	}
	t.Render()
}
