package kind

import (
	"context"
	"errors"
	"strings"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// uiAddress is the UI's external URL. The UI refuses requests for other hosts.
const uiAddress = "http://localhost:8085"

// UI installs the UI of the publisher's chart with read access to the registry. It uses the commands in
// docs/guides/ui-in-cluster.md.
func (g *Environment) UI(ctx context.Context, f *fleet.Fleet) (fleet.Program, error) {
	reader, err := f.Credentials(ctx, "_reader")
	if err != nil {
		return nil, err
	}
	c := g.clusters[fleet.ControlPlane]
	for name, arguments := range map[string][]string{
		"kcp-publisher-ui": {"--from-literal=session.key=" + strings.Repeat("5a", 32)},
		"kcp-publisher-ui-registry": {
			"--type=kubernetes.io/dockerconfigjson", "--from-literal=.dockerconfigjson=" + string(reader),
		},
	} {
		if _, err := c.kubectl(ctx, append([]string{
			"-n", publisherNamespace, "create", "secret", "generic", name,
		}, arguments...)...); err != nil {
			return nil, err
		}
	}
	// The chart cannot derive the token service's port from the location.
	if err := g.setUI(ctx, "ui.enabled=true,ui.externalURL="+uiAddress+",ui.sessionSecretName=kcp-publisher-ui,"+
		"ui.registry.enabled=true,ui.registry.configSecretName=kcp-publisher-ui-registry,ui.replicas=1,"+
		"ui.egressPorts={443,6443,5443}"); err != nil {
		return nil, err
	}
	return &pod{c, publisherNamespace, publisherRelease + "-ui", "ui"}, nil
}

// RemoveUI removes the UI and its Secrets.
func (g *Environment) RemoveUI(ctx context.Context) error {
	_, err := g.clusters[fleet.ControlPlane].kubectl(ctx, "-n", publisherNamespace, "delete", "secret",
		"kcp-publisher-ui", "kcp-publisher-ui-registry", "--ignore-not-found")
	return errors.Join(err, g.setUI(ctx, "ui.enabled=false,ui.registry.enabled=false,ui.registry.configSecretName="))
}

// setUI changes values of the installed publisher's chart and waits until its pods are ready.
func (g *Environment) setUI(ctx context.Context, values string) error {
	return g.upgrade(ctx, g.clusters[fleet.ControlPlane], publisherRelease, publisherNamespace,
		"--reset-then-reuse-values", "--set", values)
}

// ReadUI returns a page of the UI, as a user with this token sees it.
func (g *Environment) ReadUI(ctx context.Context, token, path string) (string, error) {
	c := g.clusters[fleet.ControlPlane]
	ip, err := c.kubectl(ctx, "-n", publisherNamespace, "get", "service", publisherRelease+"-ui", "-o",
		"jsonpath={.spec.clusterIP}")
	if err != nil {
		return "", err
	}
	return c.inNode(ctx, "curl", "--silent", "--show-error", "--fail", "--max-time", "20", "--header",
		"Host: "+strings.TrimPrefix(uiAddress, "http://"), "--header", "Authorization: Bearer "+token,
		"http://"+strings.TrimSpace(ip)+path)
}
