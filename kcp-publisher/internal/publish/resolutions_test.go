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
	return keyOf(inputs{Revision: request})
}

func TestResolutionKeyCoversAllInputs(t *testing.T) {
	ref := resolve.Ref{Component: "example.com/keda", Version: "1.0.0"}
	known := map[resolutionKey]string{}
	for name, in := range map[string]inputs{
		"none":       {},
		"revision":   {Revision: "2"},
		"request":    {Request: resolve.Request{NoCatalog: true}},
		"last state": {LastState: "sha256:a"},
		"kept":       {Request: resolve.Request{Last: &bundle.DesiredState{Manifests: make([]bundle.Manifest, 1)}}},
	} {
		key := keyOf(in)
		if other, ok := known[key]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		if known[key] = name; keyOf(in) != key {
			t.Errorf("%s has two keys", name)
		}
	}
	contents := map[string]digest.Digest{
		"content": idFor(ref, resolve.Content{Images: []string{"one"}}, nil),
		"values":  idFor(ref, resolve.Content{Images: []string{"one"}, Values: &resolve.Part{}}, nil),
		"other version": idFor(resolve.Ref{Component: ref.Component, Version: "2.0.0"},
			resolve.Content{Images: []string{"one"}}, nil),
		"error": idFor(ref, resolve.Content{}, errors.New("gone")),
	}
	for name, id := range contents {
		key := keyOf(inputs{}).with(id)
		if other, ok := known[key]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		known[key] = name
	}
}

func resolutionOf(bytes int) *resolution {
	return &resolution{documents: bundle.Documents{State: bundle.Blob{Bytes: make([]byte, bytes)}}}
}

func TestRuntimeHoldsOneResolution(t *testing.T) {
	r := newResolutions(1 << 30)
	var honest, hostile Record
	shared := resolutionOf(10)
	r.Put(&honest.resolution, keyFor("usual"), shared)
	for i := range 1000 {
		r.Put(&hostile.resolution, keyFor(fmt.Sprint("another ", i)), resolutionOf(1000))
	}
	if entries, bytes := r.Held(); bytes != 1010 || entries != 2 {
		t.Errorf("%d bytes of %d results are remembered", bytes, entries)
	}
	found := func(record *Record, request string) *resolution {
		known, _ := r.Find(&record.resolution, keyFor(request))
		return known
	}
	bytes := func() int {
		_, bytes := r.Held()
		return bytes
	}
	if found(&hostile, "usual") != shared || bytes() != 10 {
		t.Errorf("%d bytes after it requests the same as others", bytes())
	}
	r.Put(&honest.resolution, keyFor("new"), resolutionOf(20))
	if found(&hostile, "usual") != shared || bytes() != 30 {
		t.Errorf("%d bytes: the result was dropped while a runtime still requests it", bytes())
	}
}

func TestCachedResolutionsAreLimited(t *testing.T) {
	r := newResolutions(100)
	records := make([]Record, 50)
	for i := range records {
		r.Put(&records[i].resolution, keyFor(fmt.Sprint("request-", i)), resolutionOf(30))
		if _, found := r.Find(&records[0].resolution, keyFor("request-0")); !found {
			t.Fatal("the most recently used result was dropped")
		}
	}
	if entries, bytes := r.Held(); bytes > 100 || entries != 3 {
		t.Errorf("%d bytes of %d results are remembered", bytes, entries)
	}
	var large Record
	r.Put(&large.resolution, keyFor("large"), resolutionOf(1000))
	if _, found := r.Find(&large.resolution, keyFor("large")); !found {
		t.Error("the large result was dropped")
	}
	if entries, _ := r.Held(); entries != 1 {
		t.Errorf("%d results are remembered beside one that is too large", entries-1)
	}
	r.Put(&large.resolution, keyFor("small"), resolutionOf(1))
	if _, bytes := r.Held(); bytes != 1 {
		t.Errorf("%d bytes are remembered", bytes)
	}
}

func idFor(ref resolve.Ref, content resolve.Content, err error) digest.Digest {
	id, _ := idOf(ref, content, err)
	return id
}
