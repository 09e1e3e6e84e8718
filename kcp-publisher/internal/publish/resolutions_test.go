package publish

import (
	"errors"
	"fmt"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

func keyFor(request string) resolutionKey {
	return hashInput(resolutionInput{Revision: request})
}

func TestResolutionKeyCoversAllInputs(t *testing.T) {
	ref := resolve.ComponentRef{Component: "example.com/keda", Version: "1.0.0"}
	known := map[resolutionKey]string{}
	for name, in := range map[string]resolutionInput{
		"no inputs":                {},
		"catalog revision":         {Revision: "2"},
		"request":                  {Request: resolve.Request{OmitsCatalog: true}},
		"digest of the last state": {LastState: "sha256:a"},
		"kept Manifests": {Request: resolve.Request{
			LastState: &bundle.DesiredState{Manifests: make([]bundle.Manifest, 1)},
		}},
	} {
		key := hashInput(in)
		if other, ok := known[key]; ok {
			t.Errorf("inputs %q and %q have the same key", name, other)
		}
		if known[key] = name; hashInput(in) != key {
			t.Errorf("inputs %q have two different keys", name)
		}
	}
	contents := map[string]digest.Digest{
		"content": idFor(ref, resolve.Content{Images: []string{"one"}}, nil),
		"values":  idFor(ref, resolve.Content{Images: []string{"one"}, Values: &resolve.Part{}}, nil),
		"other version": idFor(resolve.ComponentRef{Component: ref.Component, Version: "2.0.0"},
			resolve.Content{Images: []string{"one"}}, nil),
		"error": idFor(ref, resolve.Content{}, errors.New("gone")),
	}
	for name, id := range contents {
		key := hashInput(resolutionInput{}).withContents(id)
		if other, ok := known[key]; ok {
			t.Errorf("inputs %q and %q have the same key", name, other)
		}
		known[key] = name
	}
}

func resolutionOf(bytes int) *resolution {
	return &resolution{documents: bundle.Documents{State: bundle.Blob{Bytes: make([]byte, bytes)}}}
}

func TestPublisherCachesOneResolutionPerRuntime(t *testing.T) {
	r := newResolutions(1 << 30)
	var honest, hostile Record
	shared := resolutionOf(10)
	r.Put(&honest.resolution, keyFor("usual"), shared)
	for i := range 1000 {
		r.Put(&hostile.resolution, keyFor(fmt.Sprint("another ", i)), resolutionOf(1000))
	}
	if entries, bytes := r.Size(); bytes != 1010 || entries != 2 {
		t.Errorf("got %d bytes in %d cached results", bytes, entries)
	}
	found := func(record *Record, request string) *resolution {
		known, _ := r.Share(&record.resolution, keyFor(request))
		return known
	}
	bytes := func() int {
		_, bytes := r.Size()
		return bytes
	}
	if found(&hostile, "usual") != shared || bytes() != 10 {
		t.Errorf("shared request: got %d bytes, want 10", bytes())
	}
	r.Put(&honest.resolution, keyFor("new"), resolutionOf(20))
	if found(&hostile, "usual") != shared || bytes() != 30 {
		t.Errorf("got %d bytes, want 30: a result must be kept while a runtime requests it", bytes())
	}
}

func TestCachedResolutionsAreLimited(t *testing.T) {
	r := newResolutions(100)
	records := make([]Record, 50)
	for i := range records {
		r.Put(&records[i].resolution, keyFor(fmt.Sprint("request-", i)), resolutionOf(30))
		if _, found := r.Share(&records[0].resolution, keyFor("request-0")); !found {
			t.Fatal("the most recently used result was dropped")
		}
	}
	if entries, bytes := r.Size(); bytes > 100 || entries != 3 {
		t.Errorf("got %d bytes in %d cached results", bytes, entries)
	}
	var large Record
	r.Put(&large.resolution, keyFor("large"), resolutionOf(1000))
	if _, found := r.Share(&large.resolution, keyFor("large")); !found {
		t.Error("the large result was dropped")
	}
	if entries, _ := r.Size(); entries != 1 {
		t.Errorf("got %d cached results, want only the large result", entries)
	}
	r.Put(&large.resolution, keyFor("small"), resolutionOf(1))
	if _, bytes := r.Size(); bytes != 1 {
		t.Errorf("got %d cached bytes, want 1", bytes)
	}
}

func idFor(ref resolve.ComponentRef, content resolve.Content, err error) digest.Digest {
	id, _ := contentID(ref, content, err)
	return id
}
