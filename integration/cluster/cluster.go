// Package cluster runs real Kubernetes control planes for scenarios, the demo and benchmarks: kube-apiserver and etcd per
// cluster, and kwok in those whose workloads shall become ready. Nothing of a cluster is left behind once it is stopped.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/hack/assets"
)

// Options describe a cluster.
type Options struct {
	// Workloads makes Deployments, StatefulSets and DaemonSets ready, as controllers and kubelets would.
	Workloads bool
	// Progress gets a line for what takes long; nil for none.
	Progress io.Writer
	// Durable makes etcd sync its writes to disk, as benchmarks want it and tests do not need it.
	Durable bool
}

// Cluster is a running control plane.
type Cluster struct {
	Config *rest.Config

	dir        string
	kubeconfig string
	env        *envtest.Environment
	kwok       *kwok
}

// Start brings a cluster up and waits until it answers.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	progress := options.Progress
	if progress == nil {
		progress = io.Discard
	}
	found, err := assets.Ensure(ctx, progress)
	if err != nil {
		return nil, fmt.Errorf("obtain the programs of a cluster: %w", err)
	}
	dir, err := os.MkdirTemp("", "kyma-pull-cluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, kubeconfig: filepath.Join(dir, "kubeconfig")}
	c.env = environment(found, dir, options.Durable)
	if c.Config, err = c.env.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start kube-apiserver and etcd: %w", err), c.Stop())
	}
	c.Config.QPS, c.Config.Burst = -1, 0
	admin, err := c.env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("add an admin: %w", err), c.Stop())
	}
	kubeconfig, err := admin.KubeConfig()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a kubeconfig: %w", err), c.Stop())
	}
	if err := os.WriteFile(c.kubeconfig, kubeconfig, 0o600); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	if options.Workloads {
		if c.kwok, err = startKwok(found.Kwok, dir, c.kubeconfig); err != nil {
			return nil, errors.Join(fmt.Errorf("start kwok: %w", err), c.Stop())
		}
	}
	return c, nil
}

func environment(found assets.Assets, dir string, durable bool) *envtest.Environment {
	env := &envtest.Environment{
		ControlPlaneStartTimeout: time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	api := env.ControlPlane.GetAPIServer()
	api.Path = found.KubeAPIServer
	// No controller manager makes ServiceAccounts' tokens here, so that nothing may wait for them.
	api.Configure().Set("disable-admission-plugins", "ServiceAccount").
		Set("max-requests-inflight", "2000").Set("max-mutating-requests-inflight", "2000")
	etcd := &envtest.Etcd{Path: found.Etcd, DataDir: filepath.Join(dir, "etcd")}
	if !durable {
		etcd.Configure().Set("unsafe-no-fsync", "true")
	}
	env.ControlPlane.Etcd = etcd
	return env
}

// Kubeconfig is the path of a kubeconfig with all rights, good for as long as the cluster runs.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Pause stops the API server; etcd keeps the data.
func (c *Cluster) Pause() error {
	if err := c.env.ControlPlane.APIServer.Stop(); err != nil {
		return fmt.Errorf("stop kube-apiserver: %w", err)
	}
	return nil
}

// Resume starts the API server again at the same address.
func (c *Cluster) Resume() error {
	if err := c.env.ControlPlane.APIServer.Start(); err != nil {
		return fmt.Errorf("start kube-apiserver: %w", err)
	}
	return nil
}

// Stop ends the cluster and removes its data.
func (c *Cluster) Stop() error {
	var problems []error
	if c.kwok != nil {
		problems = append(problems, c.kwok.stop())
	}
	problems = append(problems, c.env.Stop(), os.RemoveAll(c.dir))
	return errors.Join(problems...)
}
