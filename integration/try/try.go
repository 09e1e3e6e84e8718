// Package try tests two versions of a module before the module team releases them. It simulates the typical events in
// a fleet.
//
// A try starts a registry, the publisher, two agents, and API servers for a control plane and two runtimes. It
// installs the older version and rolls out the newer version, first to the canary. It also kills an agent, deletes
// and changes objects, and stops the registry. Each step has a verdict.
//
// The clusters have no nodes, so a try does not test images. The module's workloads become ready immediately, unless
// they have the annotation kyma-pull.dev/simulate: broken.
//
// A module team calls Module from its own test:
//
//	func TestUpgrade(t *testing.T) {
//		try.Module(t, try.Options{
//			Component: "example.org/module/mailer", From: "1.0.0", To: "1.1.0",
//			Components: []string{"ctf:testdata/components"}, Templates: []string{"testdata/templates"},
//		})
//	}
//
// Outside this repository, $KYMA_PULL_PROGRAMS must be a folder with kcp-publisher and skr-agent. Module discards the
// logs of controller-runtime.
package try

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// Options configure a try.
type Options struct {
	// Component is the module's OCM component, such as example.org/module/mailer. Empty selects the sample module.
	Component string
	// From is the older version, and To the newer version. Both are empty for the sample module.
	From, To string
	// Components contains the sources of the component: registry paths, common transport archives (with an optional
	// prefix ctf:), or folders of archives.
	Components []string
	// Templates contains files or folders with ModuleTemplates. The default is a ModuleTemplate without a manager and
	// without a default CR.
	Templates []string
	// ReadyWithin is the time limit for installing or upgrading the module in one runtime. 0 means two minutes.
	ReadyWithin time.Duration
	// Dir is the folder for logs and kubeconfigs. If empty, a temporary folder is used.
	Dir string
	// Progress receives a line for each long step. It can be nil.
	Progress io.Writer
	// RegistryFlags contains the publisher's flags for access to the component registry, such as --registry-config.
	RegistryFlags []string
	// Clusters lends the API servers. If nil, the try starts new ones.
	Clusters *cluster.Pool
	// Environment provides kind clusters instead of API servers. The try closes it.
	Environment fleet.Environment
	// Fleet is a running fleet, and Runtimes are two of its runtimes without the module: the canary and the other
	// runtime. If Fleet is nil, the try starts a fleet.
	Fleet    *fleet.Fleet
	Runtimes [2]*fleet.Runtime
	// Around is called for each step, for example to show progress. It must call step and return its error. It can be
	// nil.
	Around func(title string, step func() error) error
}

// Module tries a module in a test, with one subtest for each step, up to the first failure.
func Module(t *testing.T, options Options) {
	t.Helper()
	log.SetLogger(logr.Discard()) // without a logger, controller-runtime prints a stack trace after half a minute
	options.Around = func(title string, step func() error) (err error) {
		t.Run(title, func(t *testing.T) {
			if err = step(); err != nil {
				t.Error(err)
			}
		})
		return err
	}
	if _, err := Run(t.Context(), options); err != nil {
		t.Fatal(err)
	}
}

var errNotRun = errors.New("not run, because an earlier step failed")

// Run tries a module and returns the verdict of each step. It returns an error only if the try could not run or could
// not clean up.
func Run(ctx context.Context, options Options) ([]Verdict, error) {
	m, err := options.module()
	if err != nil {
		return nil, err
	}
	if options.ReadyWithin == 0 {
		options.ReadyWithin = 2 * time.Minute
	}
	if options.Progress == nil {
		options.Progress = io.Discard
	}
	if options.Around == nil {
		options.Around = func(_ string, step func() error) error { return step() }
	}
	a := &attempt{options: options, module: m}
	verdicts := a.run(ctx)
	if err := a.cleanUp(context.WithoutCancel(ctx)); err != nil {
		return verdicts, fmt.Errorf("remove the clusters: %w", err)
	}
	return verdicts, ctx.Err()
}

func (a *attempt) run(ctx context.Context) []Verdict {
	var verdicts []Verdict
	failed := false
	for _, s := range a.steps() {
		v := Verdict{Step: s.name, Checks: s.checks, Err: errNotRun}
		if !failed {
			started := time.Now()
			v.Err = a.options.Around(s.name, func() error { return a.explain(ctx, s.happens(ctx)) })
			v.Took = time.Since(started)
		}
		failed = failed || v.Err != nil
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// cleanUp closes the fleet if the try started it. Otherwise, it removes the try's objects from the control plane.
func (a *attempt) cleanUp(ctx context.Context) error {
	switch {
	case a.options.Fleet != nil:
		return a.removeFromControlPlane(ctx)
	case a.fleet != nil:
		return a.fleet.Close()
	}
	return nil
}
