package plan

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestReconcileIsRequestedOnlyByANewValue(t *testing.T) {
	for name, c := range map[string]struct{ asked, handled, want string }{
		"Kyma without a request":          {"", "", ""},
		"request that was removed":        {"", "noon", ""},
		"first request":                   {"noon", "", "noon"},
		"request that was handled":        {"noon", "noon", ""},
		"second request":                  {"one", "noon", "one"},
		"request longer than the limit":   {strings.Repeat("x", 1<<10), "noon", strings.Repeat("x", maxRequestBytes)},
		"truncated request handled":       {strings.Repeat("x", 1<<10), strings.Repeat("x", maxRequestBytes), ""},
		"request with control characters": {"\x1b[2J", "", `\x1b[2J`},
	} {
		kyma := &v1beta2.Kyma{}
		kyma.Annotations = map[string]string{v1beta2.AnnotationReconcileRequested: c.asked}
		kyma.Status.LastHandledReconcileAt = c.handled
		if got := ReconcileRequest(kyma); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
