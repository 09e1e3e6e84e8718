package fleet

import (
	"slices"
	"testing"

	"github.com/kyma-pull/kyma-pull/integration/cluster"
)

func TestMeasuredFleetUsesGoDefaults(t *testing.T) {
	t.Setenv("GOGC", "")
	for _, c := range []struct {
		options Options
		want    []string
	}{
		{Options{}, []string{"GOGC=400"}},
		{Options{Durable: true}, []string{"GOGC=400"}},
		{Options{Measured: true}, nil},
		{Options{Measured: true, Clusters: &cluster.Pool{}}, nil},
	} {
		f := New(c.options)
		if got := f.programEnvironment(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: programs get %v, want %v", c.options, got, c.want)
		}
		for _, control := range []bool{true, false} {
			got := f.clusterOptions(control)
			if got.Measured != c.options.Measured || got.Durable != (c.options.Durable && control) {
				t.Errorf("%+v: cluster options (control plane: %t) have Measured %t and Durable %t", c.options, control,
					got.Measured, got.Durable)
			}
			if noted := len(got.Audit) > 0; noted == c.options.Measured {
				t.Errorf("%+v: control plane %t: cluster records requests: %t", c.options, control, noted)
			}
		}
	}
}
