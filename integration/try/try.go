// Package try tries a module before it reaches a fleet: two versions of it go through what happens to modules in one.
//
// It starts a control plane and two runtimes, which are API servers, a registry and both programs. The older version is
// installed and the newer one rolled out: the canary first, then the other runtime. Meanwhile an agent is killed,
// objects are deleted and changed, and the registry goes away. Each step has a verdict; of one that failed it says the
// cause and the objects.
//
// There are no nodes: what the module's Deployments, StatefulSets and DaemonSets would run is taken for ready at once,
// unless they have the annotation kyma-pull.dev/simulate: broken. Pods never start, so that nothing here tells whether
// images work.
//
// A module team calls it from a test of its own:
//
//	func TestUpgrade(t *testing.T) {
//		try.Module(t, try.Options{
//			Component: "example.org/module/mailer", From: "1.0.0", To: "1.1.0",
//			Components: []string{"ctf:testdata/components"}, Templates: []string{"testdata/templates"},
//		})
//	}
//
// Outside this repository $KYMA_PULL_PROGRAMS has to name a folder with kcp-publisher and skr-agent. Module silences
// the logs of controller-runtime, of which the steps say what matters.
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

// Options say what is tried.
type Options struct {
	// Component is the module's OCM component, such as example.org/module/mailer; the module is called as its last part.
	// Empty takes the sample module.
	Component string
	// From is the version to begin with, and To the one to upgrade to. The sample module has its own where they are empty.
	From, To string
	// Components are where the component is: registry paths, common transport archives (a ctf: before them is allowed), or
	// folders of archives.
	Components []string
	// Templates are files with ModuleTemplates, or folders of such files. A version that none is for gets one without a
	// manager and a default CR.
	Templates []string
	// ReadyWithin is how long an install or upgrade of one runtime may take, 0 for two minutes.
	ReadyWithin time.Duration
	// Dir keeps logs and kubeconfigs; empty for a folder that is removed at the end.
	Dir string
	// Progress gets a line for what takes long, nil for none.
	Progress io.Writer
	// RegistryFlags are those with which the publisher reaches where components are, such as --registry-config.
	RegistryFlags []string
	// Clusters lends the API servers, nil to start new ones.
	Clusters *cluster.Pool
	// Ground is what the fleet stands on instead of API servers: kind clusters, where pods run. It is closed at the end.
	Ground fleet.Ground
	// Fleet is one that is up already, nil to start one for the try. The first of its two runtimes is the canary. Neither
	// may have the module, and what the try made in the control plane is removed at the end.
	Fleet    *fleet.Fleet
	Runtimes [2]*fleet.Runtime
	// Around runs a step, to tell of it meanwhile; nil only runs it. It returns what the step returns.
	Around func(title string, step func() error) error
}

// Module tries a module in a test: one subtest for each step, up to one that fails.
func Module(t *testing.T, options Options) {
	t.Helper()
	log.SetLogger(logr.Discard()) // without one it prints a stack half a minute later
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

// errNotRun is the verdict on steps after one that failed.
var errNotRun = errors.New("not run, as a step before failed")

// Run tries a module and returns the verdict of each step. The error is about what could not be tried or removed at
// all; that a step failed is none.
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
	if err := a.leave(context.WithoutCancel(ctx)); err != nil {
		return verdicts, fmt.Errorf("take the clusters down: %w", err)
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

// leave closes the fleet, or puts one that is somebody else's in the order in which it was.
func (a *attempt) leave(ctx context.Context) error {
	switch {
	case a.options.Fleet != nil:
		return a.withdraw(ctx)
	case a.fleet != nil:
		return a.fleet.Close()
	}
	return nil
}
