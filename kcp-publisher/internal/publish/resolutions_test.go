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

func TestAResolutionIsKnownAgainByAllThatItDependsOn(t *testing.T) {
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
		"content":       idOf(ref, resolve.Content{Images: []string{"one"}}, nil),
		"values":        idOf(ref, resolve.Content{Images: []string{"one"}, Values: &resolve.Part{}}, nil),
		"other version": idOf(resolve.Ref{Component: ref.Component, Version: "2.0.0"}, resolve.Content{Images: []string{"one"}}, nil),
		"error":         idOf(ref, resolve.Content{}, errors.New("gone")),
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

func TestARuntimeThatAlwaysAsksForSomethingElseIsRememberedOnce(t *testing.T) {
	r := newResolutions(1 << 30)
	shared := resolutionOf(10)
	r.remember("honest", keyFor("usual"), shared)
	for i := range 1000 {
		r.remember("hostile", keyFor(fmt.Sprint("another ", i)), resolutionOf(1000))
	}
	if r.bytes != 1010 || len(r.byKey) != 2 || r.recent.Len() != 2 {
		t.Errorf("%d bytes of %d results are remembered", r.bytes, len(r.byKey))
	}
	if r.find("hostile", keyFor("usual")) != shared || r.bytes != 10 {
		t.Errorf("%d bytes after it asks for what others ask for", r.bytes)
	}
	r.remember("honest", keyFor("new"), resolutionOf(20))
	if r.find("hostile", keyFor("usual")) != shared || r.bytes != 30 {
		t.Errorf("%d bytes: what one still asks for was forgotten with the other", r.bytes)
	}
}

func TestAllResultsTogetherAreBounded(t *testing.T) {
	r := newResolutions(100)
	for i := range 50 {
		r.remember(fmt.Sprint("runtime-", i), keyFor(fmt.Sprint("request-", i)), resolutionOf(30))
		if r.find("runtime-0", keyFor("request-0")) == nil {
			t.Fatal("what is used most was forgotten")
		}
	}
	if r.bytes > 100 || len(r.byKey) != 3 {
		t.Errorf("%d bytes of %d results are remembered", r.bytes, len(r.byKey))
	}
	r.remember("large", keyFor("large"), resolutionOf(1000))
	if r.find("large", keyFor("large")) == nil || len(r.byKey) != 1 {
		t.Errorf("%d results are remembered beside one that is too large", len(r.byKey)-1)
	}
	r.remember("large", keyFor("small"), resolutionOf(1))
	if r.bytes != 1 {
		t.Errorf("%d bytes are remembered", r.bytes)
	}
}
