package publish

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func resolutionOf(bytes int) *resolution {
	return &resolution{documents: bundle.Documents{State: bundle.Blob{Bytes: make([]byte, bytes)}}}
}

func TestARuntimeThatAlwaysAsksForSomethingElseIsRememberedOnce(t *testing.T) {
	r := newResolutions(1 << 30)
	shared := resolutionOf(10)
	r.remember("honest", "usual", shared)
	for i := range 1000 {
		r.remember("hostile", fmt.Sprint("another ", i), resolutionOf(1000))
	}
	if r.bytes != 1010 || len(r.byKey) != 2 || r.recent.Len() != 2 {
		t.Errorf("%d bytes of %d results are remembered", r.bytes, len(r.byKey))
	}
	if r.find("hostile", "usual") != shared || r.bytes != 10 {
		t.Errorf("%d bytes after it asks for what others ask for", r.bytes)
	}
	r.remember("honest", "new", resolutionOf(20))
	if r.find("hostile", "usual") != shared || r.bytes != 30 {
		t.Errorf("%d bytes: what one still asks for was forgotten with the other", r.bytes)
	}
}

func TestAllResultsTogetherAreBounded(t *testing.T) {
	r := newResolutions(100)
	for i := range 50 {
		r.remember(fmt.Sprint("runtime-", i), fmt.Sprint("request-", i), resolutionOf(30))
		if r.find("runtime-0", "request-0") == nil {
			t.Fatal("what is used most was forgotten")
		}
	}
	if r.bytes > 100 || len(r.byKey) != 3 {
		t.Errorf("%d bytes of %d results are remembered", r.bytes, len(r.byKey))
	}
	r.remember("large", "large", resolutionOf(1000))
	if r.find("large", "large") == nil || len(r.byKey) != 1 {
		t.Errorf("%d results are remembered beside one that is too large", len(r.byKey)-1)
	}
	r.remember("large", "small", resolutionOf(1))
	if r.bytes != 1 {
		t.Errorf("%d bytes are remembered", r.bytes)
	}
}

func TestWhatOneRuntimeMakesThePublisherWriteIsBounded(t *testing.T) {
	var a allowance
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	const size = 1 << 20
	written := 0
	another := func() digest.Digest { return digest.FromString(fmt.Sprint(written)) }
	for ; a.check("hostile", another(), size, now) == nil; written += size {
		for range 100 { // a push that fails is tried again
			a.spend("hostile", another(), size, now)
		}
	}
	if written != maxDocumentBytes {
		t.Errorf("%d bytes were written at once", written)
	}
	if err := a.check("hostile", another(), size, now); err == nil || !strings.Contains(err.Error(), "changes too often: 64 MiB") {
		t.Errorf("got %v", err)
	}
	if err := a.check("hostile", digest.FromString(fmt.Sprint(written-size)), size, now); err != nil {
		t.Errorf("what was written for it may not be tried again: %v", err)
	}
	if err := a.check("honest", another(), bundle.MaxDocumentBytes, now); err != nil {
		t.Errorf("another runtime waits too: %v", err)
	}
	if err := a.check("hostile", another(), size, now.Add(documentPeriod)); err != nil {
		t.Errorf("a day later: %v", err)
	}
}
