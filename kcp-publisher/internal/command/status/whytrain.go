package status

import (
	"context"
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/train"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/web/access"
)

// comingVersion is a version that a promotion train will promote to the channel of a runtime's module.
type comingVersion struct {
	Policy string `json:"policy"`
	train.Position
}

func incomingTo(ctx context.Context, api client.Reader, kyma *v1beta2.Kyma, module string) ([]comingVersion, error) {
	policies, err := access.TrainsBy(ctx, api, kyma.Namespace)
	if err != nil {
		return nil, err
	}
	channel := ""
	for i := range kyma.Status.Modules {
		if kyma.Status.Modules[i].Name == module {
			channel = kyma.Status.Modules[i].Channel
		}
	}
	var all []comingVersion
	for i := range policies {
		for _, v := range train.NewView(&policies[i]).Versions {
			if v.Module == module && v.To == channel && channel != "" {
				all = append(all, comingVersion{policies[i].Name, v})
			}
		}
	}
	return all, nil
}

func drawComing(out io.Writer, all []comingVersion) {
	for _, c := range all {
		expected := ""
		if c.Arrival != nil {
			expected = ", expected in channel " + c.To + " at " + c.Arrival.Format(time.RFC3339)
		}
		cli.Printf(out, "\ntrain %s: version %s is in channel %s%s; %s: %s\n", c.Policy, c.Version, c.Channel,
			expected, c.Reason, c.Message)
	}
}
