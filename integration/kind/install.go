package kind

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// Release names of the two charts.
const (
	publisherRelease   = "kcp-publisher"
	publisherNamespace = sample.Namespace
	agentRelease       = "skr-agent"
	agentNamespace     = v1beta2.RuntimeNamespace
)

// Publisher installs the publisher's chart and creates its Secrets.
func (g *Environment) Publisher(f *fleet.Fleet, flags []string) (fleet.Program, error) {
	ctx := context.Background()
	if err := g.bringSecrets(ctx, f); err != nil {
		return nil, err
	}
	values := map[string]any{
		"location": f.Location(), "components": []string{f.Components()},
		"keys":     map[string]any{"secretName": "publisher-keys"},
		"registry": map[string]any{"configSecretName": "publisher-registry", "caConfigMapName": "registry-ca"},
		"image":    map[string]any{"repository": publisherImage, "tag": tag},
		// The chart cannot derive the token service's port from the location.
		"networkPolicy": map[string]any{"egressPorts": ports},
		"webhook":       map[string]any{"enabled": true},
		"tokenService": map[string]any{
			"enabled": true, "keysSecretName": "registry-keys", "moduleRepositories": []string{moduleRepositories},
		},
		"takeover":  map[string]any{"enabled": true},
		"extraArgs": flags,
	}
	return g.install(ctx, g.clusters[fleet.ControlPlane], publisherRelease, publisherNamespace, values)
}

// Agent installs the agent's chart and creates its bootstrap Secret.
func (g *Environment) Agent(r *fleet.Runtime, flags []string) (fleet.Program, error) {
	ctx, c := context.Background(), g.clusters[r.Cluster()]
	values := map[string]any{"rbac": map[string]any{"clusterAdmin": true}}
	if account := g.options.ModuleAccounts[r.ID]; account != "" {
		values["rbac"] = map[string]any{"clusterAdmin": false}
		values["modules"] = map[string]any{"serviceAccount": account}
	}
	values["rbac"].(map[string]any)["checks"] = map[string]any{"rules": jobRules}
	if slices.Contains(g.options.AirGapped, r.ID) {
		folders, err := volumes(ctx, c)
		if err != nil {
			return nil, err
		}
		maps.Copy(values, folders)
	}
	values["extraArgs"] = flags
	values["image"] = map[string]any{"repository": agentImage, "tag": tag}
	values["networkPolicy"] = map[string]any{"egressPorts": ports}
	values["metrics"] = map[string]any{"enabled": true}
	// With the chart's default values, the rollback of a bad agent would take longer than the scenarios' time limit.
	values["minReadySeconds"], values["progressDeadlineSeconds"] = 5, 30
	return g.install(ctx, c, agentRelease, agentNamespace, values)
}

// jobRules contains the RBAC rules that checks of kind job need. The ClusterRole "view" does not contain these rules.
var jobRules = []map[string]any{{
	"apiGroups": []string{"batch"}, "resources": []string{"jobs"}, "verbs": []string{"create", "delete"},
}}

// ports lists the egress ports of the programs: API servers, the registry and its token service.
var ports = []int{443, 6443, 5000, 5443}

// install installs or upgrades a chart with Helm and waits until its pods are ready.
func (g *Environment) install(
	ctx context.Context, c *cluster, name, namespace string, values map[string]any,
) (fleet.Program, error) {
	if g.options.Release != "" {
		delete(values, "image") // the release's chart contains the image digest
	}
	data, err := yaml.Marshal(values)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(g.options.Dir, c.name+"-values.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return nil, err
	}
	if err := g.upgrade(ctx, c, name, namespace, "--install", "--values", path); err != nil {
		return nil, err
	}
	return &pod{c, namespace, name, name}, nil
}

// upgrade runs `helm upgrade` with these flags for the chart of a program, and waits until the chart's pods are ready.
func (g *Environment) upgrade(ctx context.Context, c *cluster, name, namespace string, flags ...string) error {
	chart := filepath.Join("charts", name)
	if g.options.Release != "" {
		var err error
		if chart, err = release(g.options.Release).chart(name); err != nil {
			return err
		}
	}
	helm := exec.CommandContext(ctx, "go", append([]string{
		"tool", "-modfile=hack/helm/go.mod", "helm", "upgrade", name, chart, "--namespace", namespace, "--kubeconfig",
		c.kubeconfig, "--wait", "--timeout", limit.String(),
	}, flags...)...)
	helm.Dir = g.options.Checkout
	if _, err := run(ctx, helm); err != nil {
		return fmt.Errorf("upgrade chart %s in %s: %w", name, c.name, err)
	}
	return nil
}

func (g *Environment) bringSecrets(ctx context.Context, f *fleet.Fleet) error {
	publisherKeys, err := keySecret(f, "publisher-keys", "root.json", "publisher.key", "enrol.key", "token.key")
	if err != nil {
		return err
	}
	registryKeys, err := keySecret(f, "registry-keys", "registry.key", "token.key")
	if err != nil {
		return err
	}
	config, err := f.Credentials(ctx, "_publisher")
	if err != nil {
		return err
	}
	// Export also uses the credentials.
	if err := os.WriteFile(filepath.Join(g.options.Dir, "publisher.json"), config, 0o600); err != nil {
		return err
	}
	credentials := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: publisherNamespace, Name: "publisher-registry"},
		Type:       corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: config},
	}
	certificate, err := os.ReadFile(g.ca())
	if err != nil {
		return err
	}
	ca := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: publisherNamespace, Name: "registry-ca"},
		Data:       map[string]string{"ca.crt": string(certificate)},
	}
	var problems []error
	for _, object := range []client.Object{publisherKeys, registryKeys, credentials, ca} {
		// The object already exists if this is not the publisher's first start.
		if err := f.Control.Create(ctx, object); !apierrors.IsAlreadyExists(err) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// keySecret returns a Secret with files of the fleet's key folder.
func keySecret(f *fleet.Fleet, name string, files ...string) (*corev1.Secret, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: publisherNamespace, Name: name}, Data: map[string][]byte{},
	}
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(f.Keys(), file))
		if err != nil {
			return nil, err
		}
		secret.Data[file] = data
	}
	return secret, nil
}
