package bundle

import (
	"fmt"
	"strings"
	"testing"
)

func TestWatcherCheckNamesTheInvalidField(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Watcher)
		want   string // empty if it is valid
	}{
		"a kind of the core": {func(w *Watcher) { w.Group = "" }, ""},
		"a kind of a group":  {func(*Watcher) {}, ""},
		"secrets of others":  {func(w *Watcher) { w.Resource = "secrets" }, ""},
		"no labels":          {func(w *Watcher) { w.Labels = nil }, ""},
		"Secrets":            {func(w *Watcher) { w.Group, w.Resource = "", "secrets" }, "cannot be watched"},
		"a subresource": {
			func(w *Watcher) { w.Group, w.Resource = "", "secrets/status" }, "without a subresource",
		},
		"a kind in upper case": {func(w *Watcher) { w.Resource = "Secrets" }, "plural in lower case"},
		"no resource":          {func(w *Watcher) { w.Resource = "" }, "resourceToWatch.resource"},
		"a wildcard version":   {func(w *Watcher) { w.Version = "*" }, "resourceToWatch.version"},
		"a path as group":      {func(w *Watcher) { w.Group = "../v1/secrets" }, "resourceToWatch.group"},
		"another field":        {func(w *Watcher) { w.Field = "metadata" }, "want spec or status"},
		"an invalid label":     {func(w *Watcher) { w.Labels = map[string]string{"a": "b,c=d"} }, "labelsToWatch"},
		"a name with a space":  {func(w *Watcher) { w.Name = "a name" }, "name"},
		"more labels than fit": {func(w *Watcher) {
			for i := range maxLabelsOfWatcher {
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

func TestDesiredStateLimitsItsWatchers(t *testing.T) {
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
		"the maximum number":        {many[1:], ""},
		"one more than the maximum": {many, "at most 32"},
		"one twice":                 {[]Watcher{one("a"), one("a")}, "twice"},
		"Secrets":                   {[]Watcher{secrets}, "cannot be watched"},
	} {
		t.Run(name, func(t *testing.T) {
			err := DesiredState{Watchers: c.watchers}.check()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestWatchedObjectHasAPrintableName(t *testing.T) {
	for name, c := range map[string]struct {
		object WatchedObject
		valid  bool
	}{
		"a namespaced one":                       {WatchedObject{Namespace: "shop", Name: "a.b-c"}, true},
		"a role":                                 {WatchedObject{Name: "system:node"}, true},
		"no name":                                {WatchedObject{Namespace: "shop"}, false},
		"a line break":                           {WatchedObject{Name: "a\nb"}, false},
		"an escape":                              {WatchedObject{Name: "a\x1b[2J"}, false},
		"a name that changes the text direction": {WatchedObject{Name: "a\u202eb"}, false},
		"a name that is too long":                {WatchedObject{Name: strings.Repeat("a", 254)}, false},
		"a namespace too big":                    {WatchedObject{Namespace: strings.Repeat("a", 64), Name: "a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.object.Valid(); got != c.valid {
				t.Errorf("got %v", got)
			}
		})
	}
}
