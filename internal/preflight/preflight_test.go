package preflight

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/charts"
)

func TestFindingsByObservation(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	rootFor := func(left time.Duration) Finding {
		return Root("keys/root.json", trust.Root{Version: 3, Expires: now.Add(left)}, "sign it again", now)
	}
	crd := Definition{CRD: "kymas.operator.kyma-project.io", Version: "v1beta2"}
	lease := Permission{"get", "coordination.k8s.io", "leases", "", "kcp-publisher.kyma-pull.dev", "kcp-system", ""}
	status := Permission{"patch", "operator.kyma-project.io", "kymas", "status", "", "kcp-system", ""}
	for name, c := range map[string]struct {
		got     Finding
		want    Result
		message string
	}{
		"a root that lasts":                      {rootFor(31 * 24 * time.Hour), Passed, "valid until 2026-12-23"},
		"a root near its end":                    {rootFor(10 * 24 * time.Hour), Warning, "in 10 days"},
		"a root at its end":                      {rootFor(0), Failed, "expired"},
		"a key for its owner":                    {KeyFile("k", 0o600), Passed, "0600"},
		"a key in a Pod, readable for its group": {KeyFile("k", 0o440), Passed, "0440"},
		"a key that its group may change":        {KeyFile("k", 0o660), Failed, "its group"},
		"a key that every user can read":         {KeyFile("k", 0o644), Failed, "every user"},
		"a clock a little ahead":                 {Clock("the registry", 20*time.Second, true), Passed, ""},
		"a clock two minutes behind":             {Clock("the registry", -2*time.Minute, true), Warning, "behind"},
		"a clock an hour ahead":                  {Clock("the registry", time.Hour, true), Failed, "1h0m0s ahead of"},
		"a server that does not send the time":   {Clock("the registry", 0, false), Warning, "did not send"},
		"all rights":                             {Rights("publisher", 2, nil, "apply"), Passed, "all 2"},
		"missing rights": {
			Rights("publisher", 9, []Permission{lease, status}, "apply"), Failed,
			"patch kymas/status.operator.kyma-project.io in kcp-system",
		},
		"more missing rights than a message names": {
			Rights("publisher", 9, slices.Repeat([]Permission{lease}, 7), "apply"), Failed, "and 2 more",
		},
		"a definition with all": {crd.Served(true, nil, Failed, "upgrade"), Passed, ""},
		"a definition that is older": {
			crd.Served(true, []string{".spec.runtime"}, Failed, "upgrade"), Failed, ".spec.runtime",
		},
		"a definition that the agent will bring": {
			crd.Served(false, nil, Warning, "start"), Warning, "does not serve it",
		},
		"a registry that answers": {
			Registry("registry", "r/fleet", "answers", nil), Passed, "answers",
		},
		"a registry that cannot be reached at all": {
			Registry("registry", "r/fleet", "", http.ErrServerClosed), Failed, "r/fleet",
		},
	} {
		if c.got.Result != c.want || !strings.Contains(c.got.Message, c.message) {
			t.Errorf("%s: %+v, want %s with %q", name, c.got, c.want, c.message)
		}
		if c.want == Failed && c.got.Check != "registry" && c.got.Advice == "" {
			t.Errorf("%s: there is no advice", name)
		}
	}
}

func TestWarningsDoNotFail(t *testing.T) {
	if err := Summarize([]Finding{Pass("a", "b"), Warn("c", "d", "")}); err != nil {
		t.Error(err)
	}
	if err := Summarize([]Finding{Pass("a", "b"), Fail("c", "d", "")}); err == nil ||
		err.Error() != "1 of 2 checks failed" {
		t.Error(err)
	}
}

func TestFindingsAreOneLineEach(t *testing.T) {
	var out strings.Builder
	Draw(&out, []Finding{
		Pass("root of trust", "is valid"), Fail("registry", "it said\nno\x1b[2J", "log in"),
		Warn("clock", "is late", ""),
	})
	want := "✓ root of trust: is valid\n✗ registry: it said"
	if got := out.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 4 ||
		strings.Contains(got, "\x1b") || !strings.Contains(got, "\n    log in\n! clock: is late\n") {
		t.Errorf("%q", got)
	}
}

func TestPathsInAdviceAreQuoted(t *testing.T) {
	if got := KeyFile("my keys/$x'y", 0o666).Advice; got != `chmod 600 'my keys/$x'\''y'` {
		t.Error(got)
	}
}

// Rights come from the files that the charts are rendered from, so the check cannot miss a right of the charts.
func TestPermissionsMatchTheCharts(t *testing.T) {
	for _, c := range []struct {
		files fs.FS
		dir   string
	}{{charts.PublisherRBAC, "kcp-publisher/rbac"}, {charts.AgentRBAC, "skr-agent/rbac"}} {
		paths, err := fs.Glob(c.files, c.dir+"/*.yaml")
		if err != nil || len(paths) < 4 {
			t.Fatal(paths, err)
		}
		for _, path := range paths {
			all, err := Permissions(c.files, path, nil)
			forOperators := path == "kcp-publisher/rbac/operator.yaml" // bound to no program
			if err != nil || (len(all) == 0) != forOperators {
				t.Errorf("%s: %d permissions, %v", path, len(all), err)
			}
		}
	}
	all, err := Permissions(charts.PublisherRBAC, "kcp-publisher/rbac/publisher.yaml",
		map[string]string{"kcp-system": "fleet"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Permission{
		{"patch", "operator.kyma-project.io", "kymas", "status", "", "fleet", ""},
		{"create", "", "events", "", "", "fleet", ""},
		{"create", "events.k8s.io", "events", "", "", "fleet", ""},
		{"update", "coordination.k8s.io", "leases", "", "kcp-publisher.kyma-pull.dev", "fleet", ""},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is not among %v", want, all)
		}
	}
	// The chart creates this role for others to bind. The publisher does not have it.
	all, err = Permissions(charts.PublisherRBAC, "kcp-publisher/rbac/ui.yaml", nil)
	if err != nil ||
		slices.ContainsFunc(all, func(p Permission) bool { return p.Resource == "rollouts" && p.Verb == "patch" }) {
		t.Error(all, err)
	}
}

// Non-resource URLs are checked too: an account with all rights to install modules needs them.
func TestRightsOnURLsAreChecked(t *testing.T) {
	all, err := Permissions(charts.AgentRBAC, "skr-agent/rbac/all-modules.yaml", nil)
	if err != nil || !slices.Contains(all, Permission{Verb: "*", URL: "*"}) {
		t.Error(all, err)
	}
	url := Permission{Verb: "get", URL: "/metrics"}
	if spec := url.review().Spec; spec.ResourceAttributes != nil || spec.NonResourceAttributes == nil ||
		spec.NonResourceAttributes.Path != "/metrics" || url.String() != "get URL /metrics" {
		t.Errorf("%s: %+v", url, spec)
	}
	if spec := (Permission{Verb: "get", Resource: "pods", Namespace: "a"}).
		review().Spec; spec.NonResourceAttributes != nil || spec.ResourceAttributes.Namespace != "a" {
		t.Errorf("%+v", spec)
	}
}

func TestAccountWithoutRightsIsAWarning(t *testing.T) {
	rules := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{
			{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}},
		},
	}
	if got := Account("a", "n", rules); got.Result != Warning || got.Advice == "" {
		t.Errorf("%+v", got)
	}
	rules.ResourceRules = append(rules.ResourceRules, authorizationv1.ResourceRule{
		Verbs: []string{"get"}, APIGroups: []string{""},
	})
	if got := Account("a", "n", rules); got.Result != Passed {
		t.Errorf("%+v", got)
	}
}

// published returns an API server's document about a definition.
func published(t *testing.T, d Definition, drop string) []byte {
	t.Helper()
	schema := maps.Clone(d.schema)
	schema["x-kubernetes-group-version-kind"] = []any{
		map[string]any{"group": d.Group, "version": d.Version, "kind": d.Kind},
	}
	if drop != "" {
		properties := maps.Clone(schema["properties"].(map[string]any))
		spec := maps.Clone(properties["spec"].(map[string]any))
		fields := maps.Clone(spec["properties"].(map[string]any))
		delete(fields, drop)
		spec["properties"], properties["spec"], schema["properties"] = fields, spec, properties
	}
	data, err := json.Marshal(map[string]any{
		"components": map[string]any{"schemas": map[string]any{"io." + d.Kind: schema}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestOlderDefinitionIsDetectedByItsFields(t *testing.T) {
	definitions, err := Definitions(charts.PublisherCRDs, filepath.Join("kcp-publisher", "files", "crds"))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(definitions, func(d Definition) bool { return d.Kind == "Kyma" && d.Version == "v1beta2" })
	if at < 0 || len(definitions) < 6 {
		t.Fatalf("%d definitions", len(definitions))
	}
	kyma := definitions[at]
	if lacks, served, err := kyma.Lacks(published(t, kyma, "")); err != nil || !served || len(lacks) > 0 {
		t.Error(lacks, served, err)
	}
	if lacks, served, err := kyma.Lacks(published(t, kyma, "channel")); err != nil || !served ||
		!slices.Equal(lacks, []string{".spec.channel"}) {
		t.Error(lacks, served, err)
	}
	if _, served, err := kyma.Lacks([]byte(`{}`)); err != nil || served {
		t.Error(served, err)
	}
	if _, _, err := kyma.Lacks([]byte(`no`)); err == nil {
		t.Error("invalid JSON returns a message")
	}
}

func TestServerTimeIsReadFromResponses(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			w.Header()["Date"] = nil
		}
	}))
	defer server.Close()
	ask := func(clock time.Duration, path string) (time.Duration, bool) {
		times := NewTimes(func() time.Time { return time.Now().Add(clock) })
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := times.Wrap(http.DefaultTransport).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return times.Ahead()
	}
	if ahead, known := ask(0, "/"); !known || ahead != 0 {
		t.Error(ahead, known)
	}
	if ahead, known := ask(time.Hour, "/"); !known || ahead < 59*time.Minute || ahead > time.Hour {
		t.Error(ahead, known)
	}
	if ahead, known := ask(-time.Hour, "/"); !known || ahead > -50*time.Minute || ahead < -time.Hour {
		t.Error(ahead, known)
	}
	if _, known := ask(0, "/silent"); known {
		t.Error("it printed nothing")
	}
}
