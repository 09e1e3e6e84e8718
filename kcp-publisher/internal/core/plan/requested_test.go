package plan

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

func TestOnlyANewValueTriggersAReconcile(t *testing.T) {
	for name, c := range map[string]struct{ asked, handled, want string }{
		"no request":              {"", "", ""},
		"no request any more":     {"", "noon", ""},
		"the first time":          {"noon", "", "noon"},
		"it was handled":          {"noon", "noon", ""},
		"again":                   {"one", "noon", "one"},
		"with more than is noted": {strings.Repeat("x", 1<<10), "noon", strings.Repeat("x", maxRequestBytes)},
		"which was handled":       {strings.Repeat("x", 1<<10), strings.Repeat("x", maxRequestBytes), ""},
		"what steers a terminal":  {"\x1b[2J", "", `\x1b[2J`},
	} {
		kyma := &v1beta2.Kyma{}
		kyma.Annotations = map[string]string{v1beta2.AnnotationReconcileRequested: c.asked}
		kyma.Status.LastHandledReconcileAt = c.handled
		if got := Requested(kyma); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
