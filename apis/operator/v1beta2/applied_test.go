package v1beta2

import "testing"

func TestNewestBundleIsAppliedIfTheReportNamesIt(t *testing.T) {
	published := func(digest string) *PublishedBundle { return &PublishedBundle{Digest: digest} }
	observed := func(digest string) *ObservedBundle { return &ObservedBundle{Digest: digest} }
	for name, c := range map[string]struct {
		status *RuntimeStatus
		want   bool
	}{
		"no status":                   {nil, false},
		"nothing published":           {&RuntimeStatus{Observed: observed("a")}, false},
		"no report":                   {&RuntimeStatus{Published: published("a")}, false},
		"report without a bundle":     {&RuntimeStatus{Published: published("a"), Observed: observed("")}, false},
		"bundle without a digest":     {&RuntimeStatus{Published: published(""), Observed: observed("")}, false},
		"report of an earlier bundle": {&RuntimeStatus{Published: published("b"), Observed: observed("a")}, false},
		"report of the newest bundle": {&RuntimeStatus{Published: published("a"), Observed: observed("a")}, true},
	} {
		if got := c.status.HasAppliedNewest(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
