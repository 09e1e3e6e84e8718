package receiver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3/notifications"
)

func sample(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The samples in testdata come from the documentation of distribution and Harbor, and from zot's event builder.
func TestNotificationsFromEachRegistryAreParsed(t *testing.T) {
	if notifications.EventsMediaType != distributionEvents || notifications.EventActionPush != distributionPush {
		t.Errorf("distribution uses media type %s and action %s", notifications.EventsMediaType,
			notifications.EventActionPush)
	}
	many := `{"events":[` + strings.Repeat(`{"action":"push","target":{"repository":"fleet/reports/r-17"}},`,
		maxEvents) + `{"action":"push"}]}`
	for name, c := range map[string]struct {
		kind, event, body string
		want              []string
		wrong             bool
	}{
		"distribution": {
			kind: distributionEvents, body: sample(t, "distribution.json"), want: []string{"r-17"},
		},
		"distribution event with a charset": {
			kind: distributionEvents + "; charset=utf-8", body: sample(t, "distribution.json"), want: []string{"r-17"},
		},
		"Harbor": {
			kind: plainJSON, body: sample(t, "harbor.json"), want: []string{"r-17"},
		},
		"Harbor's CloudEvents": {
			kind: cloudEvent, body: sample(t, "harbor-cloudevent.json"), want: []string{"r-17"},
		},
		"zot event with the data as body": {
			kind: plainJSON, event: "zotregistry.image.updated", body: sample(t, "zot-data.json"),
			want: []string{"r-17"},
		},
		"zot event with a custom prefix": {
			kind: plainJSON, event: "com.example.registry.image.updated", body: sample(t, "zot-data.json"),
			want: []string{"r-17"},
		},
		"zot event as a structured CloudEvent": {
			kind: cloudEvent, body: sample(t, "zot-cloudevent.json"), want: []string{"r-17"},
		},
		"a pull from distribution": {
			kind: distributionEvents, body: strings.Replace(sample(t, "distribution.json"), `"push"`, `"pull"`, 1),
		},
		"a deletion in Harbor": {
			kind: plainJSON, body: strings.Replace(sample(t, "harbor.json"), "PUSH_", "DELETE_", 1),
		},
		"a pull from Harbor": {
			kind: cloudEvent, body: strings.Replace(sample(t, "harbor-cloudevent.json"), "pushed", "pulled", 1),
		},
		"a new repository in zot": {
			kind: plainJSON, event: "zotregistry.repository.created", body: sample(t, "zot-data.json"),
		},
		"a push of a bundle": {
			kind: distributionEvents,
			body: strings.ReplaceAll(sample(t, "distribution.json"), "/reports/", "/runtimes/"),
		},
		"a report from another fleet": {
			kind: distributionEvents, body: strings.ReplaceAll(sample(t, "distribution.json"), "fleet/", "other/"),
		},
		"a repository below a report repository": {
			kind: distributionEvents, body: strings.ReplaceAll(sample(t, "distribution.json"), "r-17", "r-17/more"),
		},
		"an invalid runtime ID": {
			kind: distributionEvents, body: strings.ReplaceAll(sample(t, "distribution.json"), "r-17", "../r-17"),
		},
		"two events of one runtime": {
			kind: distributionEvents,
			body: `{"events":[{"action":"push","target":{"repository":"fleet/reports/a"}},{"action":"push","target":{"repository":"fleet/reports/a"}}]}`, want: []string{"a"},
		},
		"an unknown event type": {
			kind: plainJSON,
			body: `{"type":"SCANNING_COMPLETED","event_data":{"repository":{"repo_full_name":"fleet/reports/a"}}}`,
		},
		"form data as body":                    {kind: "application/x-www-form-urlencoded", body: "a=b"},
		"notification without a media type":    {body: sample(t, "distribution.json")},
		"notification without events":          {kind: distributionEvents, body: `{}`},
		"notification with too many events":    {kind: distributionEvents, body: many, wrong: true},
		"notification with invalid JSON":       {kind: distributionEvents, body: "no", wrong: true},
		"notification with an empty body":      {kind: cloudEvent, wrong: true},
		"notification with two JSON documents": {kind: cloudEvent, body: "{}{}", wrong: true},
		"JSON with too many levels": {
			kind: plainJSON, body: strings.Repeat(`{"a":`, maxDepth) + "{}" + strings.Repeat("}", maxDepth),
			wrong: true,
		},
		"a repository name that is a number": {
			kind: plainJSON, event: "zotregistry.image.updated", body: `{"name":7}`, wrong: true,
		},
	} {
		repositories, err := pushedRepositories(c.kind, c.event, []byte(c.body))
		if got := reportingRuntimes("fleet", repositories); (err != nil) != c.wrong || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
}

func FuzzNotifications(f *testing.F) {
	for _, kind := range []string{distributionEvents, cloudEvent, plainJSON} {
		f.Add(kind, "", `{"events":[{"action":"push","target":{"repository":"fleet/reports/a"}}]}`)
		f.Add(kind, "zotregistry.image.updated", `{"name":"fleet/reports/a"}`)
		f.Add(kind, "", `{"type":"PUSH_ARTIFACT","event_data":{"repository":{"repo_full_name":"fleet/reports/a"}}}`)
	}
	f.Fuzz(func(t *testing.T, kind, event, body string) {
		repositories, err := pushedRepositories(kind, event, []byte(body))
		if err != nil && repositories != nil {
			t.Error("pushed returned both an error and repositories")
		}
		for _, runtime := range reportingRuntimes("fleet", repositories) {
			if !slices.Contains(repositories, fmt.Sprintf("fleet/reports/%s", runtime)) {
				t.Errorf("runtime %q has no repository in the notification", runtime)
			}
		}
	})
}
