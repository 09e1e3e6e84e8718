package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Intervals of the programs. The defaults would slow down the scenarios.
const (
	agentPoll   = "300ms"
	agentReport = "2s"
	reportPoll  = "300ms"
)

// Start returns a running fleet. If the fleet fails to start, Start closes it and returns the error.
func Start(ctx context.Context, options Options) (*Fleet, error) {
	f := New(options)
	if err := f.Up(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// New returns a fleet that is not started. Callers must call Close even if Up fails.
func New(options Options) *Fleet {
	f := &Fleet{Dir: options.Dir, options: options, environment: options.Environment}
	if f.options.TimeLimit == 0 {
		f.options.TimeLimit = LongTimeout
	}
	if f.environment == nil {
		f.environment = &local{links: map[string]*Proxy{}}
	}
	return f
}

// Up starts the control plane and the registry, creates keys, and starts the publisher.
func (f *Fleet) Up(ctx context.Context) error {
	var err error
	if f.Dir == "" {
		f.ownDir = true
		if f.Dir, err = os.MkdirTemp("", "kyma-pull-fleet-"); err != nil {
			return err
		}
	}
	if f.binaries = f.options.Programs; f.binaries == (Binaries{}) {
		if f.binaries, err = Build(); err != nil {
			return err
		}
	}
	if err := f.run(ctx, "keys", "init", "--keys", f.Keys()); err != nil {
		return fmt.Errorf("create keys: %w", err)
	}
	if f.endpoint, err = f.environment.Registry(ctx, f); err != nil {
		return fmt.Errorf("start the registry: %w", err)
	}
	f.Registries = f.endpoint.Owner
	if f.Place, err = store.Open(f.endpoint.OwnerHost+"/"+fleetPath, f.Registries); err != nil {
		return err
	}
	if f.Modules, err = store.Open(f.endpoint.OwnerHost+"/"+modulesPath, f.endpoint.Modules); err != nil {
		return err
	}
	if err := f.addControlPlane(ctx); err != nil {
		return err
	}
	return f.StartPublisher()
}

// run runs a command of the publisher until it ends.
func (f *Fleet) run(ctx context.Context, args ...string) error {
	if output, err := exec.CommandContext(ctx, f.binaries.Publisher, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}

// StartPublisher runs `kcp-publisher run`.
func (f *Fleet) StartPublisher() error {
	var err error
	f.publisher, err = f.StartReplica()
	return err
}

// StartReplica starts another publisher with additional flags. The caller must stop it before Close.
func (f *Fleet) StartReplica(more ...string) (Program, error) {
	flags := []string{
		"--set=report-poll-interval=" + reportPoll, "--agent-poll-interval=" + agentPoll,
		"--agent-report-interval=" + agentReport,
	}
	if f.options.Validity != 0 {
		flags = append(flags, "--validity="+f.options.Validity.String())
	}
	if f.options.Silence != 0 {
		flags = append(flags, "--allowed-silence="+f.options.Silence.String())
	}
	if f.options.Notifications != nil {
		notifications, err := f.options.Notifications.PublisherFlags(f.Dir)
		if err != nil {
			return nil, err
		}
		flags = append(flags, notifications...)
	}
	return f.environment.Publisher(f, slices.Concat(flags, f.options.PublisherFlags, more))
}

// Publisher returns the running publisher.
func (f *Fleet) Publisher() Program { return f.publisher }

// Control plane outages.

// PauseControlPlane stops the control plane's API server.
func (f *Fleet) PauseControlPlane() error { return f.kcp.Pause() }

// ResumeControlPlane starts the control plane's API server again.
func (f *Fleet) ResumeControlPlane() error { return f.kcp.Resume() }

// Offer pushes versions of modules to the registry and creates their ModuleTemplates.
func (f *Fleet) Offer(ctx context.Context, versions ...sample.Version) error {
	for _, v := range versions {
		if err := v.Push(ctx, f.Modules); err != nil {
			return err
		}
		if err := f.Control.Create(ctx, v.Template()); err != nil {
			return fmt.Errorf("create the ModuleTemplate of %s %s: %w", v.Module, v.Version, err)
		}
	}
	return nil
}

// Release creates or updates a module's ModuleReleaseMeta, which sets the version in each channel. Changing the version
// in a channel is a promotion.
func (f *Fleet) Release(ctx context.Context, module, component string, channels ...v1beta2.ChannelVersion) error {
	want := sample.Release(module, component, channels...)
	want.Spec.KymaSelector = f.audience()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		have := &v1beta2.ModuleReleaseMeta{}
		err := f.Control.Get(ctx, client.ObjectKeyFromObject(want), have)
		if apierrors.IsNotFound(err) {
			return f.Control.Create(ctx, want)
		}
		if err != nil {
			return err
		}
		have.Spec = want.Spec
		return f.Control.Update(ctx, have) // the publisher owns the status
	})
}

// Why runs `kcp-publisher why`.
func (f *Fleet) Why(ctx context.Context, args ...string) (string, error) {
	return f.Ask(ctx, append([]string{"why"}, args...)...)
}

// Ask runs a kcp-publisher command with the control plane's kubeconfig, and returns its output.
func (f *Fleet) Ask(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--kubeconfig", filepath.Join(f.Dir, "kcp.kubeconfig"))
	output, err := exec.CommandContext(ctx, f.binaries.Publisher, args...).CombinedOutput()
	return string(output), err
}

// Binaries returns the paths of the two programs.
func (f *Fleet) Binaries() Binaries { return f.binaries }

// Close stops all programs and clusters and removes their files. For a share of a fleet, it removes only the runtimes
// and Kymas of the share.
func (f *Fleet) Close() error {
	problems := []error{f.closeRuntimes()}
	if f.share != "" {
		return errors.Join(append(problems, f.forgetKymas())...)
	}
	if f.publisher != nil {
		problems = append(problems, f.publisher.Stop())
	}
	if f.kcp != nil {
		problems = append(problems, f.kcp.Stop())
	}
	if f.tokens != nil {
		problems = append(problems, f.tokens.Stop())
	}
	problems = append(problems, f.environment.Close())
	if f.ownDir {
		problems = append(problems, os.RemoveAll(f.Dir))
	}
	return errors.Join(problems...)
}

// CutRegistry disconnects the registry from the network.
func (f *Fleet) CutRegistry() error { return f.environment.CutRegistry() }

// HealRegistry connects the registry again.
func (f *Fleet) HealRegistry() error { return f.environment.HealRegistry() }
