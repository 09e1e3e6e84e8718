package command

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/internal/serve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/fleetui"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/registry"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/notify"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/receiver"
)

// Connections from clients without credentials must not exhaust a container's memory.
func TestConnectionsFitInHalfTheChartsMemoryLimit(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "kcp-publisher", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type container struct {
		Resources corev1.ResourceRequirements `json:"resources"`
	}
	var values struct {
		container
		TokenService container `json:"tokenService"`
		UI           container `json:"ui"`
	}
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		of      container
		servers []serve.Limits
	}{
		"publisher":     {values.container, []serve.Limits{notify.Limits, receiver.Limits, serve.Small, serve.Small}},
		"token service": {values.TokenService, []serve.Limits{registry.TokenLimits}},
		"fleet UI":      {values.UI, []serve.Limits{fleetui.PageLimits}},
	} {
		var most int64
		for _, server := range c.servers {
			most += server.Memory()
		}
		if limit := c.of.Resources.Limits.Memory().Value(); most > limit/2 {
			t.Errorf("%s: clients can fill %d of %d bytes, want at most half", name, most, limit)
		}
	}
}
