// Package cluster runs real Kubernetes control planes for scenarios, the demo and benchmarks: kube-apiserver and etcd per
// cluster, and kwok in those whose workloads shall become ready. Nothing of a cluster is left behind once it is
// stopped or the process that started it is gone, however it went.
//
// No controller manager and no scheduler run. So there are no Pods, a deleted Namespace stays Terminating, and nothing is deleted
// because its owner was.
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
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kyma-pull/kyma-pull/hack/assets"
	"github.com/kyma-pull/kyma-pull/hack/pristine"
)

// Options describe a cluster.
type Options struct {
	// Workloads makes Deployments, StatefulSets and DaemonSets ready, as controllers and kubelets would.
	Workloads bool
	// Progress gets a line for what takes long; nil for none.
	Progress io.Writer
	// CRDs are installed and served before Start returns: every YAML file anywhere in them, such as charts.AgentCRDs or an
	// os.DirFS.
	CRDs []fs.FS
	// Durable makes etcd sync its writes to disk, as benchmarks want it and tests do not need it.
	Durable bool
	// Measured lets the programs use all processors and collect garbage as Go does by default. Else they use less of both.
	Measured bool
	// Audit are users whose requests are noted, for Requests.
	Audit []string
}

// Cluster is a running control plane.
type Cluster struct {
	Config *rest.Config

	options    Options
	programs   assets.Assets
	dir        string
	kubeconfig string
	env        *envtest.Environment
	log        *os.File // what the API server says
	kwok       *kwok
	reaper     *reaper
	paused     bool
	audited    int64 // bytes of the audit log that are of others who had the cluster before

	giveBack func(*Cluster) error // nil for a cluster that is of no pool
	origin   *pristine.Snapshot   // of one that is
}

// Start brings a cluster up and waits until it answers.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	c := &Cluster{options: options}
	found, err := assets.Ensure(ctx, c.progress())
	if err != nil {
		return nil, fmt.Errorf("obtain the programs of a cluster: %w", err)
	}
	dir, err := os.MkdirTemp("", "kyma-pull-cluster-")
	if err != nil {
		return nil, err
	}
	c.dir, c.kubeconfig = dir, filepath.Join(dir, "kubeconfig")
	if c.reaper, err = startReaper(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	for _, program := range []*string{&found.KubeAPIServer, &found.Etcd, &found.Kwok} {
		if *program, err = c.reaper.watch(*program, options.Measured); err != nil {
			return nil, errors.Join(err, c.reaper.dismiss(), os.RemoveAll(dir))
		}
	}
	c.programs = found
	if c.env, c.log, err = environment(found, dir, options); err != nil {
		return nil, errors.Join(err, c.reaper.dismiss(), os.RemoveAll(dir))
	}
	if c.Config, err = c.env.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start kube-apiserver and etcd: %w\n%s", err, tail(c.log.Name())), c.Stop())
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
	if err := installCRDs(c.Config, options.CRDs); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	if err := c.begin(options); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// begin makes ready for whoever uses the cluster next.
func (c *Cluster) begin(options Options) error {
	if options.Workloads && c.kwok == nil {
		var err error
		if c.kwok, err = startKwok(c.programs.Kwok, c.dir, c.kubeconfig); err != nil {
			return fmt.Errorf("start kwok: %w", err)
		}
	}
	log, err := os.Stat(filepath.Join(c.dir, auditLog))
	if err == nil {
		c.audited = log.Size()
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (c *Cluster) progress() io.Writer {
	if c.options.Progress == nil {
		return io.Discard
	}
	return c.options.Progress
}

func environment(found assets.Assets, dir string, options Options) (*envtest.Environment, *os.File, error) {
	env := &envtest.Environment{
		// Whatever the environment variable of envtest says: scenarios never touch somebody's own cluster.
		UseExistingCluster:       new(false),
		ControlPlaneStartTimeout: 3 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	log, err := os.Create(filepath.Join(dir, "kube-apiserver.log"))
	if err != nil {
		return nil, nil, err
	}
	api := env.ControlPlane.GetAPIServer()
	api.Path, api.Out, api.Err = found.KubeAPIServer, log, log
	// With a folder of its own choice envtest would make a new CA at each start, and Resume would lock every client out.
	api.CertDir = filepath.Join(dir, "certificates")
	etcd := &envtest.Etcd{Path: found.Etcd, DataDir: filepath.Join(dir, "etcd")}
	for _, folder := range []string{api.CertDir, etcd.DataDir} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nil, nil, errors.Join(err, log.Close())
		}
	}
	// No controller manager makes ServiceAccounts and their tokens here, so that nothing may wait for them.
	api.Configure().Set("disable-admission-plugins", "ServiceAccount").
		// Else Pause would take a minute wherever somebody watches: the API server waits for watches that it does not end.
		Set("shutdown-watch-termination-grace-period", "2s").
		Set("max-requests-inflight", "2000").Set("max-mutating-requests-inflight", "2000").
		// envtest's range of 256 addresses is used up by a cluster of some hundred applications.
		Set("service-cluster-ip-range", "10.0.0.0/16")
	if len(options.Audit) > 0 {
		if err := audit(api, dir, options.Audit); err != nil {
			return nil, nil, errors.Join(err, log.Close())
		}
	}
	if !options.Durable {
		etcd.Configure().Set("unsafe-no-fsync", "true")
	}
	env.ControlPlane.Etcd = etcd
	return env, log, nil
}

// tail returns the end of a log, where the reason for a failed start stands.
func tail(path string) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return content[max(0, len(content)-4096):]
}

// Kubeconfig is the path of a kubeconfig with all rights, good for as long as the cluster runs.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Etcd returns the address of etcd, for whoever writes more objects than the API server would take in the time.
func (c *Cluster) Etcd() string { return c.env.ControlPlane.Etcd.URL.String() }

// WriteKubeconfig writes the same to a file of the caller's, readable by nobody else.
func (c *Cluster) WriteKubeconfig(path string) error {
	content, err := os.ReadFile(c.kubeconfig)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// WriteUserKubeconfig writes a kubeconfig of somebody as User gives it.
func (c *Cluster) WriteUserKubeconfig(path, name string, groups ...string) error {
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return fmt.Errorf("add user %s: %w", name, err)
	}
	content, err := user.KubeConfig()
	if err != nil {
		return fmt.Errorf("make a kubeconfig of user %s: %w", name, err)
	}
	return os.WriteFile(path, content, 0o600)
}

// User is the configuration of somebody known by name and groups, with no rights but those that RBAC objects give. Kubernetes'
// aggregated roles (view, edit, admin) are empty here, as only a controller manager fills them.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, error) {
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	return user.Config(), nil
}

// Pause stops the API server; etcd keeps the data, and Config and the users' configurations stay good for Resume.
func (c *Cluster) Pause() error {
	c.paused = true
	if err := c.env.ControlPlane.APIServer.Stop(); err != nil {
		return fmt.Errorf("stop kube-apiserver: %w", err)
	}
	return c.reaper.forget("kube-apiserver")
}

// Resume starts the API server again at the same address.
func (c *Cluster) Resume() error {
	if err := c.env.ControlPlane.APIServer.Start(); err != nil {
		return fmt.Errorf("start kube-apiserver: %w", err)
	}
	c.paused = false
	return nil
}

// Started is when the API server was started last.
func (c *Cluster) Started(context.Context) (time.Time, error) {
	return c.reaper.started("kube-apiserver")
}

// Stop ends the cluster and removes its data, or gives it back to its pool.
func (c *Cluster) Stop() error {
	if c.giveBack != nil {
		return c.giveBack(c)
	}
	return c.end()
}

func (c *Cluster) end() error {
	var problems []error
	if c.kwok != nil {
		problems = append(problems, c.kwok.stop())
	}
	problems = append(problems, c.env.Stop(), c.log.Close(), c.reaper.dismiss(), os.RemoveAll(c.dir))
	return errors.Join(problems...)
}
