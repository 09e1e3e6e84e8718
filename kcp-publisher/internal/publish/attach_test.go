package publish

import (
	"testing"

	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry"
)

func TestCosignSignatureIsAttachedIfConfigured(t *testing.T) {
	for name, c := range map[string]struct {
		attach bool
		want   int
	}{
		"not by default":         {false, 0},
		"to every bundle pushed": {true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			p := f.started()
			p.AttachCosign = c.attach
			for _, channel := range []string{"regular", "fast", "fast"} { // the third changes nothing
				outcome := f.publish(p, runtimeNamed("berlin"), channel)
				store, err := oci.New(f.dir)
				if err != nil {
					t.Fatal(err)
				}
				pushed, err := store.Resolve(t.Context(), outcome.Published.Digest.String())
				if err != nil {
					t.Fatal(err)
				}
				if referrers, err := registry.Referrers(t.Context(), store, pushed, ""); err != nil ||
					len(referrers) != c.want {
					t.Errorf("channel %s: referrers are %v, %v, want %d", channel, referrers, err, c.want)
				}
			}
		})
	}
}
