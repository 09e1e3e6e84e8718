package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// network is the one between all clusters and the registry, unless a runtime is set apart.
const network = prefix + "net"

// Options describe a ground.
type Options struct {
	// Checkout is the folder with the project's go.mod.
	Checkout string
	// Dir keeps kubeconfigs and the registry's configuration.
	Dir string
	// Progress gets a line for what takes long.
	Progress io.Writer
	// Apart are the runtimes whose clusters lie on a network of their own, with no way to the registry.
	Apart []string
	// ModuleAccounts are the ServiceAccounts in kyma-system that modules of a runtime are installed as, by runtime; its agent then has
	// no more rights than those of its own work. Runtimes that are not named have the chart's defaults.
	ModuleAccounts map[string]string
}

// Ground is kind clusters with a registry between them.
type Ground struct {
	options  Options
	machine  machine
	registry *registryServer
	clusters map[string]*cluster
	links    map[string]*link
	exports  int // files so far
}

// New looks at the machine, removes what a former run left, makes the images and the network. The error is ErrNoDocker where
// there is no Docker.
func New(ctx context.Context, options Options) (*Ground, error) {
	g := &Ground{options: options, clusters: map[string]*cluster{}, links: map[string]*link{}}
	var err error
	if g.machine, err = inspect(ctx, options.Checkout, options.Progress); err != nil {
		return nil, err
	}
	g.say("nodes are made of %s", g.machine.nodeImage)
	if err := Sweep(ctx); err != nil {
		return nil, fmt.Errorf("remove what a former run left: %w", err)
	}
	g.say("making the images …")
	if err := buildImages(ctx, options.Checkout); err != nil {
		return nil, err
	}
	_, err = docker(ctx, "network", "create", network)
	return g, err
}

func (g *Ground) say(format string, args ...any) {
	fmt.Fprintf(g.options.Progress, "kind: "+format+"\n", args...)
}

// Registry starts the registry and its token service. Each runtime gets a password of its own.
func (g *Ground) Registry(ctx context.Context, f *fleet.Fleet) (fleet.Endpoint, error) {
	if output, exit := fleet.Run(ctx, f.Binaries().Publisher, "registry", "init", "--keys", f.Keys()); exit != 0 {
		return fleet.Endpoint{}, fmt.Errorf("make the registry's key: %s", output)
	}
	host := registryName + ":" + registryPort
	g.registry = &registryServer{network: network, dir: filepath.Join(g.options.Dir, "registry"), keys: f.Keys()}
	if err := g.registry.start(ctx, host+"/fleet"); err != nil {
		return fleet.Endpoint{}, err
	}
	address, owner, err := g.registry.owner(ctx)
	return fleet.Endpoint{
		Host: host, OwnerHost: address, Owner: owner, Modules: owner,
		Enrol: []string{"--registry-password", "--registry-ca", g.ca()},
	}, err
}

func (g *Ground) ca() string { return filepath.Join(g.registry.dir, "tls.crt") }

// Cluster creates a kind cluster and loads the images of its pods.
func (g *Ground) Cluster(ctx context.Context, _ *fleet.Fleet, name string, control bool) (fleet.Cluster, error) {
	g.say("creating cluster %s …", name)
	where := network
	if slices.Contains(g.options.Apart, name) {
		where = prefix + name
	}
	images := runtimeImages()
	if control {
		images = append(images, publisherImage+":"+tag)
	}
	c, err := create(ctx, g.machine, name, where, g.options.Dir)
	if err != nil {
		return nil, err
	}
	g.clusters[name] = c
	return c, c.load(ctx, images...)
}

// Link is a runtime's way to the registry.
func (g *Ground) Link(runtime string) fleet.Link {
	if g.links[runtime] == nil {
		g.links[runtime] = &link{cluster: g.clusters[runtime]}
	}
	return g.links[runtime]
}

// CutRegistry takes the registry off the network.
func (g *Ground) CutRegistry() error { return g.registry.cut(context.Background()) }

// HealRegistry brings it back.
func (g *Ground) HealRegistry() error { return g.registry.heal(context.Background()) }

// Close removes registry and network.
func (g *Ground) Close() error { return Sweep(context.Background()) }

// Kubeconfigs are the paths of all clusters' kubeconfigs, by cluster.
func (g *Ground) Kubeconfigs() map[string]string {
	paths := map[string]string{}
	for name, c := range g.clusters {
		paths[name] = c.Kubeconfig()
	}
	return paths
}

// Kubectl runs kubectl against a cluster as a person with all rights would, and gives what it prints.
func (g *Ground) Kubectl(ctx context.Context, cluster string, args ...string) (string, error) {
	c := g.clusters[cluster]
	if c == nil {
		return "", fmt.Errorf("there is no cluster %s", cluster)
	}
	return c.kubectl(ctx, args...)
}

// RemoveFiles removes the folder with kubeconfigs and configuration, once nothing needs it any more.
func (g *Ground) RemoveFiles() error { return os.RemoveAll(g.options.Dir) }

// Gather writes what explains a failure into a folder: the objects, events and logs of every cluster and the logs of the registry.
func (g *Ground) Gather(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var problems []error
	keep := func(name, content string, err error) {
		if err != nil {
			content += "\n" + err.Error() + "\n" // what could not be read is part of the state
		}
		problems = append(problems, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	for name, c := range g.clusters {
		for file, args := range gathered {
			content, err := c.kubectl(ctx, args...)
			keep(name+"-"+file, content, err)
		}
		for _, p := range []*pod{{c, publisherNamespace, publisherRelease}, {c, agentNamespace, agentRelease}} {
			keep(name+"-"+p.deployment+".log", p.Log(), nil)
		}
		content, err := c.inNode(ctx, "journalctl", "--no-pager", "--lines=300", "--unit=kubelet")
		keep(name+"-kubelet.log", content, err)
	}
	for _, container := range []string{registryContainer, tokenContainer} {
		content, err := docker(ctx, "logs", "--tail=500", container)
		keep(container+".log", content, err)
	}
	return errors.Join(problems...)
}

// gathered are files and the arguments of kubectl that fill them.
var gathered = map[string][]string{
	"pods.txt":     {"get", "pods", "--all-namespaces", "-o", "wide"},
	"events.txt":   {"get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"},
	"fleet.yaml":   {"get", "kymas,manifests,moduletemplates,modulereleasemetas", "--all-namespaces", "-o", "yaml"},
	"kyma.yaml":    {"-n", agentNamespace, "get", "deployments,configmaps,beacons", "-o", "yaml"},
	"describe.txt": {"describe", "pods", "--all-namespaces"},
}
