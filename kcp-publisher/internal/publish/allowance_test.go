package publish

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestNewDocumentsPerRuntimeAreLimited(t *testing.T) {
	var hostile, honest writeLimit
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	const size = 1 << 20
	written := 0
	another := func() digest.Digest { return digest.FromString(fmt.Sprint(written)) }
	for ; hostile.check(another(), size, now) == nil; written += size {
		for range 100 { // a failed push is retried
			hostile.spend(another(), size, now)
		}
	}
	if written != maxDocumentBytes {
		t.Errorf("got %d bytes before the limit, want %d", written, maxDocumentBytes)
	}
	if err := hostile.check(another(), size, now); err == nil ||
		!strings.Contains(err.Error(), "changes too often: 64 MiB") {
		t.Errorf("after the limit: got %v, want an error", err)
	}
	if err := hostile.check(digest.FromString(fmt.Sprint(written-size)), size, now); err != nil {
		t.Errorf("repeated attempt for the last state: got error %v, want none", err)
	}
	if err := honest.check(another(), bundle.MaxDocumentBytes, now); err != nil {
		t.Errorf("another runtime: got error %v, want none", err)
	}
	if err := hostile.check(another(), size, now.Add(documentPeriod)); err != nil {
		t.Errorf("after a day: got error %v, want none", err)
	}
}
