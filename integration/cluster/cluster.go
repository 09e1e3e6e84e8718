// Package cluster runs real Kubernetes control planes for scenarios, the demo and benchmarks: kube-apiserver, etcd,
// and kwok if workloads must become ready. The processes and files are removed even if the process that started the
// cluster is killed.
//
// A cluster does not run a controller manager or a scheduler. It therefore has no Pods, deleted namespaces stay
// Terminating, and objects are not garbage collected.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kyma-pull/kyma-pull/hack/lender"
)

// Options configure a cluster.
type Options struct {
	// Workloads runs kwok, which makes Deployments, StatefulSets and DaemonSets ready.
	Workloads bool
	// Progress receives a line for each long step. It can be nil.
	Progress io.Writer
	// CRDs are file systems with YAML files of CRDs, which Start installs. A pool installs the CRDs of both charts in
	// each cluster.
	CRDs []fs.FS
	// Durable makes etcd sync its writes to disk, as benchmarks require.
	Durable bool
	// Measured runs the programs with Go's default settings. Otherwise, they use one processor and collect garbage
	// less often.
	Measured bool
	// Endpoints makes the API server send requests for webhooks and aggregated APIs to the endpoints of their Services. By
	// default, it uses the Services' cluster IPs, which need kube-proxy.
	Endpoints bool
	// Audit lists the users whose requests are recorded. A pool also records the requests of the users in Audited.
	Audit []string
}

// Cluster is a running control plane.
type Cluster struct {
	Config *rest.Config

	place lender.Place
	host  host
}

// host runs a cluster's programs. It is a server in this process, or a cluster on loan from the lender of the test run.
type host interface {
	// addUser returns a kubeconfig of the user.
	addUser(user lender.User) ([]byte, error)
	pause() error
	resume() error
	backup(dir string) error
	restore(dir string) error
	stop() error
}

// Start starts a cluster and waits until its API server is ready.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	s, err := start(ctx, options)
	if err != nil {
		return nil, err
	}
	return open(s.place(), s)
}

// open returns a Cluster for a running host. After an error, it stops the host.
func open(place lender.Place, host host) (*Cluster, error) {
	config, err := place.Config()
	if err != nil {
		return nil, errors.Join(err, host.stop())
	}
	return &Cluster{Config: config, place: place, host: host}, nil
}

// Kubeconfig returns the path of a kubeconfig with admin permissions.
func (c *Cluster) Kubeconfig() string { return c.place.Kubeconfig }

// Etcd returns the address of etcd, so that benchmarks can create objects directly in etcd.
func (c *Cluster) Etcd() string { return c.place.Etcd }

// WriteKubeconfig writes the admin kubeconfig to a file that only its owner can read.
func (c *Cluster) WriteKubeconfig(path string) error {
	content, err := os.ReadFile(c.place.Kubeconfig)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// WriteUserKubeconfig writes a kubeconfig for a user. See User for the permissions.
func (c *Cluster) WriteUserKubeconfig(path, name string, groups ...string) error {
	content, err := c.host.addUser(lender.User{Name: name, Groups: groups})
	if err != nil {
		return fmt.Errorf("add user %s: %w", name, err)
	}
	return os.WriteFile(path, content, 0o600)
}

// User returns the client configuration of a user with these groups. The aggregated roles view, edit and admin are
// empty, because only a controller manager fills them.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, error) {
	content, err := c.host.addUser(lender.User{Name: name, Groups: groups})
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of user %s: %w", name, err)
	}
	return config, nil
}

// Pause stops the API server. The data and client configurations stay valid.
func (c *Cluster) Pause() error { return c.host.pause() }

// Resume starts the API server again at the same address.
func (c *Cluster) Resume() error { return c.host.resume() }

// Backup copies etcd's data to a new folder. It stops etcd and the API server during the copy.
func (c *Cluster) Backup(dir string) error { return c.host.backup(dir) }

// Restore replaces the data of etcd with a copy that Backup made. Client configurations stay valid.
func (c *Cluster) Restore(dir string) error { return c.host.restore(dir) }

// Started returns the time of the API server's last start.
func (c *Cluster) Started(context.Context) (time.Time, error) {
	return startedAt(filepath.Join(c.place.Dir, "kube-apiserver.pid"))
}

// Stop ends the cluster and removes its data. If the cluster comes from a Pool, Stop returns it to the pool.
func (c *Cluster) Stop() error { return c.host.stop() }
