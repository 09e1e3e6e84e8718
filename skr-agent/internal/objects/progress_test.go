package objects

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/bundle/window"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/maintenance"
)

func TestUnwrittenManifestsAreListed(t *testing.T) {
	w := newWorld(t)
	newer := bundleOf(module("keda", "2.0.0"), module("nats", "2.0.0"), module("istio", "2.0.0"))
	newer.State.Manifests[1].RequiresDowntime = true
	newer.State.Maintenance = &window.Schedule{}
	w.sync(bundleOf(module("keda", "1.0.0"), module("nats", "1.0.0"), module("istio", "1.0.0")))
	gate := maintenance.New(newer, "", nil, nil, time.Now())
	missing := map[string]error{"keda": errors.New("content is missing")}
	require.NoError(t, w.Sync(t.Context(), newer, missing, gate, time.Now()).Err())
	unwritten := func() (names []string) {
		for _, m := range w.Unwritten() {
			names = append(names, m.Name+" "+m.Spec.Version)
		}
		return names
	}
	require.Equal(t, []string{"keda 2.0.0", "nats 2.0.0", "istio 2.0.0"}, unwritten(), "a cache can lack a new Manifest")
	require.NoError(t, w.Sync(t.Context(), newer, nil, gate, time.Now()).Err())
	require.Equal(t, []string{"keda 2.0.0", "nats 2.0.0"}, unwritten())
	w.sync(newer)
	w.sync(newer)
	require.Empty(t, unwritten())
}

func TestUnwrittenManifestsStayListedDuringTheNextSync(t *testing.T) {
	var p progress
	b := bundleOf()
	p.begin(b)
	p.unwritten = append(p.unwritten, newManifest(module("keda", "2.0.0")))
	p.finish(b)
	p.begin(b)
	require.Len(t, p.Unwritten(), 1)
	p.finish(b)
	require.Empty(t, p.Unwritten())
}
