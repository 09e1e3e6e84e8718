package store

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestMemoryForHostsFromDescriptorsIsLimited(t *testing.T) {
	e := newEgress(http.DefaultTransport.(*http.Transport).Clone())
	e.allowHost("registry.example", true)
	long := strings.Repeat("a.", 1<<19)
	for i := range 2 * maxSeen {
		e.allowHost(fmt.Sprintf("r-%d.example", i), false)
		if i%1000 != 0 {
			continue
		}
		e.allowHost(fmt.Sprintf("%s%d", long, i), false)
		bytes := 0
		for host := range e.configured {
			bytes += len(host)
		}
		if limit := maxSeen * maxHostBytes; bytes > limit || len(e.configured) > maxSeen {
			t.Fatalf("got %d hosts with %d bytes, want at most %d with %d", len(e.configured), bytes, maxSeen, limit)
		}
	}
	if !e.configured["registry.example"] {
		t.Error("the configured host was dropped")
	}
}
