package fleet

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/integration/cluster"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// local is the Environment on this machine: API servers with kwok, a registry in this process, and programs as
// processes.
type local struct {
	registry *registry.Registry
	links    map[string]*Proxy // links to the registry by runtime ID
}

func (l *local) Registry(ctx context.Context, f *Fleet) (Endpoint, error) {
	if f.options.Links && (f.options.Secured || f.options.Tokens) {
		return Endpoint{},
			errors.New("Links cannot be combined with Secured or Tokens: local links do not support passwords")
	}
	if f.options.Tokens {
		endpoint, err := f.startRegistryWithTokens(ctx)
		l.registry = f.Registry
		return endpoint, err
	}
	options := f.options.Notifications.registryOptions()
	access := store.Access{NoRetry: true}
	if host := f.options.RegistryHost; host != "" {
		access.BlobHosts, access.CA = f.options.BlobHosts, f.options.OwnerCA
		owner, err := store.NewRegistries(access)
		return Endpoint{
			Host: host, OwnerHost: cmp.Or(f.options.SecondRegistryHost, host), Owner: owner, Modules: owner,
			Enroll: f.RegistryFlags("agent"),
		}, err
	}
	if f.options.Secured {
		options = registry.Options{TLS: true, Users: map[string]string{"publisher": "p", "agent": "a"}}
	}
	var err error
	if l.registry, err = registry.Start(ctx, options); err != nil {
		return Endpoint{}, err
	}
	f.Registry = l.registry
	for user := range options.Users {
		auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + options.Users[user]))
		access.DockerConfig = fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, f.Registry.Host(), auth)
		if err := os.WriteFile(filepath.Join(f.Dir, user+".json"), access.DockerConfig, 0o600); err != nil {
			return Endpoint{}, err
		}
	}
	access.CA = f.Registry.CA()
	if err := os.WriteFile(filepath.Join(f.Dir, "ca.pem"), access.CA, 0o600); err != nil {
		return Endpoint{}, err
	}
	owner, err := store.NewRegistries(access)
	return Endpoint{Host: f.Registry.Host(), OwnerHost: f.Registry.Host(), Owner: owner, Modules: owner,
		Enroll: f.RegistryFlags("agent")}, err
}

func (l *local) Cluster(ctx context.Context, f *Fleet, _ string, control bool) (Cluster, error) {
	start := cluster.Start
	if f.options.Clusters != nil {
		start = f.options.Clusters.Take
	}
	c, err := start(ctx, f.clusterOptions(control))
	if err != nil {
		return nil, err // returning the nil pointer c would result in a non-nil Cluster
	}
	return c, nil
}

// clusterOptions returns the options of the control plane's or a runtime's cluster.
func (f *Fleet) clusterOptions(control bool) cluster.Options {
	options := cluster.Options{Progress: f.options.Progress, Workloads: true, Measured: f.options.Measured}
	options.Endpoints = f.options.Endpoints && !control
	if !f.options.Measured { // an audit log would distort the measurement
		options.Audit = cluster.Audited()
	}
	switch {
	case control: // the publisher's chart contains the CRDs of the control plane
		options.CRDs = []fs.FS{charts.PublisherCRDs}
		options.Durable, options.Workloads = f.options.Durable, f.options.SingleCluster
	case f.options.Clusters != nil:
		// An API server delays the first object of a new CRD by two seconds, so install the CRDs in advance.
		options.CRDs = []fs.FS{charts.AgentCRDs}
	}
	return options
}

func (l *local) Publisher(f *Fleet, flags []string) (Program, error) {
	args := []string{"run", "--kubeconfig", f.PublisherKubeconfig(), "--location", f.Location(), "--keys", f.Keys(),
		"--components", f.Components(), "--metrics-bind-address", "0", "--health-probe-bind-address", "0",
		"--leader-elect=" + strconv.FormatBool(f.options.LeaderElect)}
	if own, err := Build(); err != nil {
		return nil, err
	} else if !f.options.RestrictSettings && own.Publisher == f.binaries.Publisher { // older builds lack the flag
		args = append(args, "--trust-kyma-authors")
	}
	args = append(append(args, f.RegistryFlags("publisher")...), flags...)
	return f.start(Command{
		Binary: f.binaries.Publisher, Args: args, Env: f.options.PublisherEnvironment,
		Log: filepath.Join(f.Dir, "kcp-publisher.log"),
	})
}

func (l *local) Agent(r *Runtime, flags []string) (Program, error) {
	args := []string{"run", "--kubeconfig", r.AgentKubeconfig(), "--metrics-bind-address", "0",
		"--health-probe-bind-address", "0",
		"--leader-elect=" + strconv.FormatBool(r.fleet.options.LeaderElect)}
	if r.fleet.options.Links && r.location == "" {
		through, err := l.linkFlags(r)
		if err != nil {
			return nil, err
		}
		args = append(args, through...)
	}
	return r.fleet.start(Command{
		Binary: cmp.Or(r.AgentProgram, r.fleet.binaries.Agent), Args: append(args, flags...),
		Log: filepath.Join(r.fleet.Dir, cmp.Or(r.name, r.ID)+".log"),
	})
}

// start starts a program. A program with leader election exits when it loses its Lease, so the program is then started
// again.
func (f *Fleet) start(c Command) (*Process, error) {
	c.Env, c.Restart = append(f.programEnvironment(), c.Env...), f.options.LeaderElect
	return c.Start()
}

// programEnvironment returns additional environment variables for programs.
func (f *Fleet) programEnvironment() []string {
	if f.options.Measured {
		return nil
	}
	return cluster.GOGCSetting()
}

// linkFlags returns flags that make an agent access the registry only through the runtime's link.
func (l *local) linkFlags(r *Runtime) ([]string, error) {
	registry := r.fleet.endpoint.Host
	if l.links[r.ID] == nil {
		link, err := StartProxy(cmp.Or(r.fleet.options.SecondRegistryHost, registry))
		if err != nil {
			return nil, err
		}
		l.links[r.ID] = link
	}
	host := l.links[r.ID].Host()
	return []string{"--location=" + host + "/" + fleetPath, "--mirror=" + registry + "=" + host}, nil
}

func (l *local) Link(runtime string) Link {
	link, ok := l.links[runtime]
	if !ok {
		return nil // returning the nil pointer link would result in a non-nil Link
	}
	return link
}

func (l *local) CutRegistry() error  { return l.registry.Stop() }
func (l *local) HealRegistry() error { return l.registry.Resume() }

func (l *local) Close() error {
	var problems []error
	for _, link := range l.links {
		problems = append(problems, link.Close())
	}
	if l.registry != nil {
		problems = append(problems, l.registry.Close())
	}
	return errors.Join(problems...)
}
