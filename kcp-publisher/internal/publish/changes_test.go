package publish

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

func publishedWith(modules ...string) *plan.PublishedBundle {
	p := &plan.PublishedBundle{StateBlob: ocispec.Descriptor{Digest: digest.FromString(fmt.Sprint(modules))}}
	for _, module := range modules {
		p.State.Manifests = append(p.State.Manifests, bundle.Manifest{Module: module})
	}
	return p
}

func TestComparisonOfTwoStatesIsCached(t *testing.T) {
	p := newFleet(t).started()
	one, two, three := publishedWith("a"), publishedWith("a", "b"), publishedWith("c")
	for _, pair := range [][2]*plan.PublishedBundle{{one, two}, {two, one}, {one, three}, {three, two}, {one, one}} {
		want := plan.ChangesBetween(pair[0].State, pair[1].State)
		first, again := p.changesBetween(pair[0], pair[1]), p.changesBetween(pair[0], pair[1])
		if !reflect.DeepEqual(first, want) {
			t.Errorf("got %v, want %v", first, want)
		}
		if first != again {
			t.Error("a cached pair was compared again")
		}
	}
	for i := range 2 * maxChanges {
		p.changesBetween(publishedWith(fmt.Sprint(i)), one)
	}
	if entries, _ := p.changes.Size(); entries > maxChanges {
		t.Errorf("got %d cached pairs, want at most %d", entries, maxChanges)
	}
}
