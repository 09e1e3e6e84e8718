package command

import (
	"io"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func TestStatusReadsAFleetInPages(t *testing.T) {
	const runtimes = 2*pageOf + 1
	api, _ := manyKymas(t, runtimes).connect(t)
	in, err := readInput(t.Context(), api, scope{namespace: defaultNamespace, selector: labels.Everything()},
		dividedRuntimes{})
	if err != nil || len(in.Kymas) != runtimes {
		t.Fatalf("read %d Kymas, %v", len(in.Kymas), err)
	}
	in.Now = time.Now()
	if f := fleet.Assess(in); f.Summary.Health[fleet.Healthy] != runtimes {
		t.Errorf("got summary %+v, want %d healthy runtimes", f.Summary, runtimes)
	}
}

// BenchmarkStatus measures `status` for 10,000 healthy runtimes, by default and with --all. It includes the time of the
// test server.
func BenchmarkStatus(b *testing.B) {
	api, table := manyKymas(b, 10_000).connect(b)
	for name, all := range map[string]bool{"default": false, "all": true} {
		b.Run(name, func(b *testing.B) {
			flags := statusFlags{controlPlane: controlPlane{namespace: defaultNamespace}, format: "table", all: all}
			for b.Loop() {
				in, err := flags.readBy(b.Context(), api, table, scope{
					namespace: defaultNamespace, selector: labels.Everything(),
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
