// Command demo shows kyma-pull with real programs: one control plane and two runtimes with API servers, a registry,
// the publisher and two agents. It leaves everything running for inspection.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/recording"
	"github.com/kyma-pull/kyma-pull/integration/steps"
)

func main() {
	exit := flag.Bool("exit", false, "exit after the last step")
	record := flag.String("record", "", "write an animated picture of the steps and the result to this SVG file")
	flag.Parse()
	steps.Main("demo", dir, func(ctx context.Context, absolute string) error {
		return run(ctx, absolute, *exit, *record)
	})
}

// dir is the folder for the kubeconfigs and logs of the demo.
const dir = ".demo"

func run(ctx context.Context, absolute string, exit bool, record string) (err error) {
	t := steps.New(os.Stdout)
	s := &demoFleet{dir: absolute}
	defer func() {
		if s.fleet != nil {
			err = errors.Join(err, s.fleet.Close())
		}
	}()
	started := time.Now()
	for _, step := range s.steps() {
		if err := t.Step(step.title, func() error { return step.happens(ctx) }); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("%s: %w\nlogs are in %s", step.title, err, absolute)
		}
	}
	var result bytes.Buffer
	if err := s.table(ctx, io.MultiWriter(os.Stdout, &result)); err != nil {
		return err
	}
	if record != "" {
		if err := os.WriteFile(record, successfulRecording(s.steps(), result.String()).SVG(), 0o644); err != nil {
			return fmt.Errorf("--record: %w", err)
		}
	}
	fmt.Printf("\nAll steps succeeded in %s.\n", time.Since(started).Round(time.Second))
	if exit {
		return nil
	}
	page, err := s.servePage(ctx)
	if err != nil {
		return err
	}
	fmt.Print(closingText(relative(s.fleet.Binaries()), page))
	<-ctx.Done()
	return nil
}

// successfulRecording returns the recording of a successful demo, which is drawn as an SVG.
func successfulRecording(all []step, result string) recording.Recording {
	r := recording.Recording{
		Title: "make demo: a control plane and two runtimes install, upgrade and repair a module, and refuse a " +
			"forged bundle",
		Command: "make demo", Rest: strings.Split(strings.TrimRight(result, "\n"), "\n"),
	}
	for _, s := range all {
		r.Steps = append(r.Steps, s.title)
	}
	return r
}

// closingText returns the last text of the demo, which lists commands to inspect the fleet.
func closingText(publisher, page string) string {
	return fmt.Sprintf(`
The fleet keeps running. Explore it in a browser:
  %[3]s
or in another terminal:
  %[2]s status --kubeconfig %[1]s/kcp.kubeconfig
  kubectl --kubeconfig %[1]s/kcp.kubeconfig -n kcp-system get kymas
  kubectl --kubeconfig %[1]s/berlin.kubeconfig -n kyma-system get kyma,manifests,deployments
  kubectl --kubeconfig %[1]s/berlin.kubeconfig -n kyma-system edit kyma default
  %[2]s why berlin --kubeconfig %[1]s/kcp.kubeconfig
Press Ctrl-C to stop.
`, dir, publisher, page)
}

func relative(b fleet.Binaries) string {
	if cwd, err := os.Getwd(); err == nil {
		if path, err := filepath.Rel(cwd, b.Publisher); err == nil {
			return path
		}
	}
	return b.Publisher
}
