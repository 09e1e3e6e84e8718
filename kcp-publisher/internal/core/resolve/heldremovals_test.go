package resolve

import (
	"slices"
	"testing"
)

func TestHeldRemovalKeepsTheManifest(t *testing.T) {
	const held = "Warning RemovalHeld: module keda: its removal waits for an operator's approval: see " +
		"`kcp-publisher removals`"
	for name, c := range map[string]struct {
		request func(*world)
		settles bool
		want    []string
	}{
		"module removed from the request": {
			request: func(w *world) { w.request.Requested.Modules = nil },
			want:    []string{"keda@1.0.0 regular", held},
		},
		"module requested as unmanaged": {
			request: func(w *world) { w.askNothingBut("keda", unmanaged) },
			want:    []string{"keda@1.0.0 regular", held},
		},
		"undecided removal": {
			request: func(w *world) { w.request.Requested.Modules = nil }, settles: true,
			want: []string{"keda@1.0.0 regular"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := usualWorld().published(t)
			c.request(w)
			w.request.HeldRemovals, w.request.IsSettling = []string{"keda"}, c.settles
			if got := outline(w.resolve(t)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
