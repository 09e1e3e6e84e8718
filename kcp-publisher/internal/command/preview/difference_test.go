package preview

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/forecast"
)

func TestDiffCountsRuntimesThatChangeLater(t *testing.T) {
	d := Difference{Forecast: forecast.Forecast{Runtimes: 3, Changed: 2, Changes: []forecast.Change{
		{Module: "keda", Channel: "regular", From: "1.0.0", To: "1.0.0", Held: "wave all",
			Runtimes: []string{"berlin", "rome"}},
		{Module: "nats", Channel: "regular", From: "1.0.0", To: "1.1.0", Runtimes: []string{"rome"}},
	}}}
	var out bytes.Buffer
	d.Draw(&out)
	for _, want := range []string{"2 of 3 runtimes would change, 1 of them later\n", "1.0.0  unchanged  2: berlin, rome"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, &out)
		}
	}
}
