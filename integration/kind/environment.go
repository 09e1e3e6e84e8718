package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// network connects all clusters and the registry, except air-gapped runtimes.
const network = prefix + "net"

// Options configure an Environment.
type Options struct {
	// Checkout is the folder with the project's go.mod.
	Checkout string
	// Dir contains keys, kubeconfigs and the registry's configuration.
	Dir string
	// Progress receives a line for each long operation.
	Progress io.Writer
	// AirGapped contains the IDs of the air-gapped runtimes. Their clusters have networks without a route to the
	// registry.
	AirGapped []string
	// ModuleAccounts maps a runtime ID to the ServiceAccount in kyma-system that installs modules. The agents of
	// other runtimes are cluster admins.
	ModuleAccounts map[string]string
	// Release is the output folder of `make release`. The environment installs the charts and images in this folder. If
	// Release is empty, it installs the charts and images of the checkout.
	Release string
}

// Environment is a set of kind clusters with a registry. It implements fleet.Environment.
type Environment struct {
	options  Options
	lock     *flock.Flock // prevents a second run on this machine until the process ends
	machine  machine
	registry *registryServer
	clusters map[string]*cluster
	links    map[string]*link
	exports  int // number of files that Export has written
}

// New reserves this machine's Docker for one run. It does not create Docker objects. Without Docker, it returns
// ErrNoDocker.
func New(ctx context.Context, options Options) (*Environment, error) {
	g := &Environment{options: options, clusters: map[string]*cluster{}, links: map[string]*link{}}
	var err error
	if g.machine, err = inspect(ctx); err != nil {
		return nil, err
	}
	if g.lock, err = claim(); err != nil {
		return nil, err
	}
	return g, nil
}

// Prepare removes the Docker objects that an earlier run left behind, and creates the images and the network. Callers
// must call Close even after an error.
func (g *Environment) Prepare(ctx context.Context) error {
	if err := errors.Join(sweep(ctx), os.RemoveAll(g.options.Dir)); err != nil {
		return fmt.Errorf("remove the leftovers of an earlier run: %w", err)
	}
	if err := os.MkdirAll(g.options.Dir, 0o700); err != nil {
		return err
	}
	var err error
	if g.machine.nodeImage, err = NodeImage(ctx, g.options.Checkout, g.options.Progress); err != nil {
		return err
	}
	g.say("using node image %s", g.machine.nodeImage)
	g.say("building the images …")
	if err := buildImages(ctx, g.options.Checkout, filepath.Join(g.options.Dir, "images")); err != nil {
		return err
	}
	_, err = docker(ctx, "network", "create", network)
	return err
}

func (g *Environment) say(format string, args ...any) {
	fmt.Fprintf(g.options.Progress, "kind: "+format+"\n", args...)
}

// Registry starts the registry and its token service.
func (g *Environment) Registry(ctx context.Context, f *fleet.Fleet) (fleet.Endpoint, error) {
	if output, exit := fleet.Run(ctx, f.Binaries().Publisher, "registry", "init", "--keys", f.Keys()); exit != 0 {
		return fleet.Endpoint{}, fmt.Errorf("create the registry's key: %s", output)
	}
	host := registryName + ":" + registryPort
	g.registry = &registryServer{network: network, dir: filepath.Join(g.options.Dir, "registry"), keys: f.Keys()}
	if err := g.registry.start(ctx, host+"/fleet"); err != nil {
		return fleet.Endpoint{}, err
	}
	address, owner, err := g.registry.owner(ctx)
	return fleet.Endpoint{
		Host: host, OwnerHost: address, Owner: owner, Modules: owner,
		Enroll: []string{"--registry-password", "--registry-ca", g.ca()},
	}, err
}

func (g *Environment) ca() string { return filepath.Join(g.registry.dir, "tls.crt") }

// Cluster creates a kind cluster and loads the images of its pods.
func (g *Environment) Cluster(ctx context.Context, _ *fleet.Fleet, name string, control bool) (fleet.Cluster, error) {
	g.say("creating cluster %s …", name)
	where := network
	if slices.Contains(g.options.AirGapped, name) {
		where = prefix + name
	}
	images := runtimeImages()
	if control {
		images = append(images, publisherImage+":"+tag)
	}
	c := newCluster(name, g.options.Dir)
	g.clusters[name] = c // Gather collects diagnostics even if create fails
	if err := c.create(ctx, g.machine, where); err != nil {
		return nil, err
	}
	if g.options.Release != "" {
		if err := c.loadRelease(ctx, release(g.options.Release)); err != nil {
			return nil, err
		}
	}
	return c, c.load(ctx, images...)
}

// Link returns a runtime's link to the registry.
func (g *Environment) Link(runtime string) fleet.Link {
	if g.links[runtime] == nil {
		g.links[runtime] = &link{cluster: g.clusters[runtime]}
	}
	return g.links[runtime]
}

// CutRegistry disconnects the registry from the network.
func (g *Environment) CutRegistry() error { return g.registry.cut(context.Background()) }

// HealRegistry connects the registry again.
func (g *Environment) HealRegistry() error { return g.registry.heal(context.Background()) }

// Close removes all Docker objects of this package, including clusters.
func (g *Environment) Close() error { return sweep(context.Background()) }

// Kubeconfigs returns the kubeconfig of each cluster.
func (g *Environment) Kubeconfigs() map[string]string {
	paths := map[string]string{}
	for name, c := range g.clusters {
		paths[name] = c.Kubeconfig()
	}
	return paths
}

// Kubectl runs kubectl against a cluster with admin permissions and returns its output.
func (g *Environment) Kubectl(ctx context.Context, cluster string, args ...string) (string, error) {
	c := g.clusters[cluster]
	if c == nil {
		return "", fmt.Errorf("cluster %s does not exist", cluster)
	}
	return c.kubectl(ctx, args...)
}
