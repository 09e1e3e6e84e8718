package bundle

import (
	"fmt"
	"strings"
	"testing"
)

func TestWatcherCheckNamesTheInvalidField(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Watcher)
		want   string // empty if the watcher is valid
	}{
		"resource of the core group":              {func(w *Watcher) { w.Group = "" }, ""},
		"resource of a named group":               {func(*Watcher) {}, ""},
		"resource named secrets in another group": {func(w *Watcher) { w.Resource = "secrets" }, ""},
		"watcher without labels":                  {func(w *Watcher) { w.Labels = nil }, ""},
		"Secrets": {
			func(w *Watcher) { w.Group, w.Resource = "", "secrets" }, "cannot be watched",
		},
		"subresource": {
			func(w *Watcher) { w.Group, w.Resource = "", "secrets/status" }, "without a subresource",
		},
		"resource in upper case": {func(w *Watcher) { w.Resource = "Secrets" }, "lower-case plural"},
		"missing resource":       {func(w *Watcher) { w.Resource = "" }, "resourceToWatch.resource"},
		"wildcard version":       {func(w *Watcher) { w.Version = "*" }, "resourceToWatch.version"},
		"group that is a path":   {func(w *Watcher) { w.Group = "../v1/secrets" }, "resourceToWatch.group"},
		"unknown field":          {func(w *Watcher) { w.Field = "metadata" }, "must be spec or status"},
		"invalid label":          {func(w *Watcher) { w.Labels = map[string]string{"a": "b,c=d"} }, "labelsToWatch"},
		"name with a space":      {func(w *Watcher) { w.Name = "a name" }, "name"},
		"more labels than the limit": {func(w *Watcher) {
			for i := range maxWatcherLabels {
				w.Labels[fmt.Sprint("l", i)] = "x"
			}
		}, "at most 16"},
	} {
		t.Run(name, func(t *testing.T) {
			w := Watcher{
				Name: "one", Group: "apps", Version: "v1", Resource: "deployments", Labels: map[string]string{"a": "b"},
				Field: FieldSpec,
			}
			c.change(&w)
			err := w.Check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestDesiredStateRefusesInvalidWatchers(t *testing.T) {
	one := func(name string) Watcher {
		return Watcher{Name: name, Version: "v1", Resource: "configmaps", Field: FieldSpec}
	}
	var many []Watcher
	for i := range MaxWatchers + 1 {
		many = append(many, one(fmt.Sprint("w-", i)))
	}
	secrets := one("keys")
	secrets.Resource = "secrets"
	for name, c := range map[string]struct {
		watchers []Watcher
		want     string
	}{
		"maximum number of watchers":        {many[1:], ""},
		"one watcher more than the maximum": {many, "at most 32"},
		"duplicate watcher":                 {[]Watcher{one("a"), one("a")}, "twice"},
		"Secrets":                           {[]Watcher{secrets}, "cannot be watched"},
	} {
		t.Run(name, func(t *testing.T) {
			err := DesiredState{Watchers: c.watchers}.check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestWatchedObjectWithAnUnprintableNameIsInvalid(t *testing.T) {
	for name, c := range map[string]struct {
		object WatchedObject
		valid  bool
	}{
		"namespaced object":                    {WatchedObject{Namespace: "shop", Name: "a.b-c"}, true},
		"name with a colon":                    {WatchedObject{Name: "system:node"}, true},
		"missing name":                         {WatchedObject{Namespace: "shop"}, false},
		"name with a line break":               {WatchedObject{Name: "a\nb"}, false},
		"name with an escape sequence":         {WatchedObject{Name: "a\x1b[2J"}, false},
		"name that changes the text direction": {WatchedObject{Name: "a\u202eb"}, false},
		"name longer than the limit":           {WatchedObject{Name: strings.Repeat("a", 254)}, false},
		"namespace longer than the limit":      {WatchedObject{Namespace: strings.Repeat("a", 64), Name: "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.object.IsValid(); got != c.valid {
				t.Errorf("got valid %t, want %t", got, c.valid)
			}
		})
	}
}
