package status

import (
	"io"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplanetest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestStatusReadsAFleetInPages(t *testing.T) {
	const runtimes = 2*controlplane.PageSize + 1
	api, _ := controlplanetest.New(t, runtimes).Connect(t)
	in, err := controlplane.ReadInput(t.Context(), api,
		controlplane.KymaSelector{Namespace: controlplane.DefaultNamespace, Selector: labels.Everything()},
		controlplane.DividedRuntimes{})
	if err != nil || len(in.Kymas) != runtimes {
		t.Fatalf("read %d Kymas, %v", len(in.Kymas), err)
	}
	in.Now = time.Now()
	if f := fleet.Assess(in); f.Summary.Health[fleet.Healthy] != runtimes {
		t.Errorf("got summary %+v, want %d healthy runtimes", f.Summary, runtimes)
	}
}

// BenchmarkStatus measures `status` for 10,000 healthy runtimes, by default and with --all. The time includes the
// test's API server.
func BenchmarkStatus(b *testing.B) {
	api, table := controlplanetest.New(b, 10_000).Connect(b)
	for name, all := range map[string]bool{"default": false, "all": true} {
		b.Run(name, func(b *testing.B) {
			flags := statusFlags{Flags: controlplane.Flags{Namespace: controlplane.DefaultNamespace}, format: "table", all: all}
			for b.Loop() {
				in, err := flags.readBy(b.Context(), api, table, controlplane.KymaSelector{
					Namespace: controlplane.DefaultNamespace, Selector: labels.Everything(),
				})
				if err != nil {
					b.Fatal(err)
				}
				in.Now = time.Now()
				if err := flags.print(io.Discard, fleet.Assess(in)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
