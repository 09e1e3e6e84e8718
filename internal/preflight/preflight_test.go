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

func TestPreflightFindingsMatchObservations(t *testing.T) {
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
		"root valid for 31 days":             {rootFor(31 * 24 * time.Hour), Passed, "valid until 2026-12-23"},
		"root valid for 10 days":             {rootFor(10 * 24 * time.Hour), Warning, "in 10 days"},
		"expired root":                       {rootFor(0), Failed, "expired"},
		"key readable by its owner":          {KeyFile("k", 0o600), Passed, "0600"},
		"key readable by its group":          {KeyFile("k", 0o440), Passed, "0440"},
		"key writable by its group":          {KeyFile("k", 0o660), Failed, "its group"},
		"key readable by every user":         {KeyFile("k", 0o644), Failed, "every user"},
		"clock 20 seconds ahead":             {Clock("the registry", 20*time.Second, true), Passed, ""},
		"clock two minutes behind":           {Clock("the registry", -2*time.Minute, true), Warning, "behind"},
		"clock an hour ahead":                {Clock("the registry", time.Hour, true), Failed, "1h0m0s ahead of"},
		"server that does not send its time": {Clock("the registry", 0, false), Warning, "did not send"},
		"all permissions granted":            {Rights("publisher", 2, nil, "apply"), Passed, "all 2"},
		"missing permissions": {
			Rights("publisher", 9, []Permission{lease, status}, "apply"), Failed,
			"patch kymas/status.operator.kyma-project.io in kcp-system",
		},
		"more missing permissions than a message names": {
			Rights("publisher", 9, slices.Repeat([]Permission{lease}, 7), "apply"), Failed, "and 2 more",
		},
		"complete definition": {crd.ServedFinding(true, nil, Failed, "upgrade"), Passed, ""},
		"definition that is older than the program": {
			crd.ServedFinding(true, []string{".spec.runtime"}, Failed, "upgrade"), Failed, ".spec.runtime",
		},
		"missing definition": {
			crd.ServedFinding(false, nil, Warning, "start"), Warning, "does not serve this kind",
		},
		"reachable registry": {
			Registry("registry", "r/fleet", "answers", nil), Passed, "answers",
		},
		"unreachable registry": {
			Registry("registry", "r/fleet", "", http.ErrServerClosed), Failed, "r/fleet",
		},
	} {
		if c.got.Result != c.want || !strings.Contains(c.got.Message, c.message) {
			t.Errorf("%s: got %+v, want %s with message %q", name, c.got, c.want, c.message)
		}
		if c.want == Failed && c.got.Check != "registry" && c.got.Advice == "" {
			t.Errorf("%s: got a finding without advice, want advice", name)
		}
	}
}

func TestCheckSummaryCountsOnlyFailures(t *testing.T) {
	if err := Summarize([]Finding{Pass("a", "b"), Warn("c", "d", "")}); err != nil {
		t.Error(err)
	}
	if err := Summarize([]Finding{Pass("a", "b"), Fail("c", "d", "")}); err == nil ||
		err.Error() != "1 of 2 checks failed" {
		t.Error(err)
	}
}

func TestCheckOutputEscapesControlCharacters(t *testing.T) {
	var out strings.Builder
	Draw(&out, []Finding{
		Pass("root of trust", "is valid"), Fail("registry", "it said\nno\x1b[2J", "log in"),
		Warn("clock", "is late", ""),
	})
	want := "✓ root of trust: is valid\n✗ registry: it said"
	if got := out.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 4 ||
		strings.Contains(got, "\x1b") || !strings.Contains(got, "\n    log in\n! clock: is late\n") {
		t.Errorf("got output %q, want one line for each finding and its advice", got)
	}
}

func TestPathsInAdviceAreQuoted(t *testing.T) {
	if got := KeyFile("my keys/$x'y", 0o666).Advice; got != `chmod 600 'my keys/$x'\''y'` {
		t.Errorf("got advice %s, want a quoted path", got)
	}
}

func TestPermissionsAreReadFromTheCharts(t *testing.T) {
	for _, c := range []struct {
		files fs.FS
		dir   string
	}{{charts.PublisherRBAC, "kcp-publisher/rbac"}, {charts.AgentRBAC, "skr-agent/rbac"}} {
		paths, err := fs.Glob(c.files, c.dir+"/*.yaml")
		if err != nil || len(paths) < 4 {
			t.Fatalf("found the files %v, error %v, want at least 4", paths, err)
		}
		for _, path := range paths {
			all, err := Permissions(c.files, path, nil)
			forOperators := path == "kcp-publisher/rbac/operator.yaml" // a role for people, not for a program
			if err != nil || (len(all) == 0) != forOperators {
				t.Errorf("%s: got %d permissions, error %v, want none: %t", path, len(all), err, forOperators)
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
			t.Errorf("got permissions %v, want them to contain %s", all, want)
		}
	}
	// The chart creates this role but does not bind it, so the publisher does not have its permissions.
	all, err = Permissions(charts.PublisherRBAC, "kcp-publisher/rbac/ui.yaml", nil)
	if err != nil ||
		slices.ContainsFunc(all, func(p Permission) bool { return p.Resource == "rollouts" && p.Verb == "patch" }) {
		t.Errorf("got permissions %v, error %v, want no permission to patch rollouts", all, err)
	}
}

// An account with permission to install all modules also needs permissions on non-resource URLs.
func TestPermissionsOnURLsAreChecked(t *testing.T) {
	all, err := Permissions(charts.AgentRBAC, "skr-agent/rbac/all-modules.yaml", nil)
	if err != nil || !slices.Contains(all, Permission{Verb: "*", URL: "*"}) {
		t.Errorf("got permissions %v, error %v, want verb * on URL *", all, err)
	}
	url := Permission{Verb: "get", URL: "/metrics"}
	if spec := url.review().Spec; spec.ResourceAttributes != nil || spec.NonResourceAttributes == nil ||
		spec.NonResourceAttributes.Path != "/metrics" || url.String() != "get URL /metrics" {
		t.Errorf("%s: got review %+v, want only non-resource attributes", url, spec)
	}
	if spec := (Permission{Verb: "get", Resource: "pods", Namespace: "a"}).
		review().Spec; spec.NonResourceAttributes != nil || spec.ResourceAttributes.Namespace != "a" {
		t.Errorf("got review %+v, want only resource attributes", spec)
	}
}

func TestAccountWithoutPermissionsCausesAWarning(t *testing.T) {
	rules := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{
			{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}},
		},
	}
	if got := Account("a", "n", rules); got.Result != Warning || got.Advice == "" {
		t.Errorf("account without permissions: got %+v, want a warning with advice", got)
	}
	rules.ResourceRules = append(rules.ResourceRules, authorizationv1.ResourceRule{
		Verbs: []string{"get"}, APIGroups: []string{""},
	})
	if got := Account("a", "n", rules); got.Result != Passed {
		t.Errorf("account with permissions: got %+v, want Passed", got)
	}
}

// published returns an OpenAPI document with the definition. The document lacks the spec field that drop names.
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

func TestMissingCRDFieldsAreFound(t *testing.T) {
	definitions, err := Definitions(charts.PublisherCRDs, filepath.Join("kcp-publisher", "files", "crds"))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(definitions, func(d Definition) bool { return d.Kind == "Kyma" && d.Version == "v1beta2" })
	if at < 0 || len(definitions) < 6 {
		t.Fatalf("found %d definitions, want at least 6 with Kyma v1beta2", len(definitions))
	}
	kyma := definitions[at]
	if lacks, served, err := kyma.MissingFields(published(t, kyma, "")); err != nil || !served || len(lacks) > 0 {
		t.Errorf("got missing fields %v, served %t, error %v, want no missing fields", lacks, served, err)
	}
	if lacks, served, err := kyma.MissingFields(published(t, kyma, "channel")); err != nil || !served ||
		!slices.Equal(lacks, []string{".spec.channel"}) {
		t.Errorf("got missing fields %v, served %t, error %v, want .spec.channel", lacks, served, err)
	}
	if _, served, err := kyma.MissingFields([]byte(`{}`)); err != nil || served {
		t.Errorf("document without the kind: got served %t, error %v, want false", served, err)
	}
	if _, _, err := kyma.MissingFields([]byte(`no`)); err == nil {
		t.Error("Lacks returned no error for invalid JSON")
	}
}

func TestClockIsComparedWithDateHeaders(t *testing.T) {
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
		t.Errorf("equal clocks: got difference %s, known %t, want 0", ahead, known)
	}
	if ahead, known := ask(time.Hour, "/"); !known || ahead < 59*time.Minute || ahead > time.Hour {
		t.Errorf("clock an hour ahead: got difference %s, known %t, want about 1h", ahead, known)
	}
	if ahead, known := ask(-time.Hour, "/"); !known || ahead > -50*time.Minute || ahead < -time.Hour {
		t.Errorf("clock an hour behind: got difference %s, known %t, want about -1h", ahead, known)
	}
	if _, known := ask(0, "/silent"); known {
		t.Error("Ahead returned a difference although the server did not send its time")
	}
}
