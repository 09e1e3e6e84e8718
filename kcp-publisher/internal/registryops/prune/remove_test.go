package prune

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// refusing is a registry that refuses deletions in the repositories with a prefix.
type refusing struct {
	store.Store
	prefix  string
	deleted []string
}

func (r *refusing) Repository(_ context.Context, name string) (store.ReadWriter, error) {
	return &refusingRepository{registry: r, name: name}, nil
}

type refusingRepository struct {
	store.ReadWriter
	registry *refusing
	name     string
}

func (r *refusingRepository) Delete(context.Context, ocispec.Descriptor) error {
	if strings.HasPrefix(r.name, r.registry.prefix) {
		return errors.New("the manifest is referenced")
	}
	r.registry.deleted = append(r.registry.deleted, r.name)
	return nil
}

func TestRefusedRemovalDoesNotStopOthers(t *testing.T) {
	registry := &refusing{prefix: "reports/hostile"}
	var planned Plan
	for i := range 2 * maxRefused {
		planned.Remove = append(planned.Remove, Removal{Manifest: Manifest{
			Repository: fmt.Sprintf("reports/r-%d", i), Descriptor: ocispec.Descriptor{Digest: digest.FromString("x")},
		}})
	}
	planned.Remove[0].Repository = "reports/hostile"
	removed, err := Remove(t.Context(), registry, planned)
	if err == nil || !strings.Contains(err.Error(), "reports/hostile") {
		t.Errorf("got error %v, want one about reports/hostile", err)
	}
	if len(registry.deleted) != len(planned.Remove)-1 || removed[0] || !removed[1] {
		t.Errorf("got %d removals, first %t, want all except the first", len(registry.deleted), removed[0])
	}
	registry = &refusing{prefix: "reports/"}
	if _, err = Remove(t.Context(), registry, planned); strings.Count(err.Error(), "remove ") != maxRefused {
		t.Errorf("got error %v, want %d refusals", err, maxRefused)
	}
}
