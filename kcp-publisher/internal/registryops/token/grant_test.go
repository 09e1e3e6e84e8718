package token

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func fleetPolicy(t *testing.T, modules ...string) Policy {
	t.Helper()
	policy, err := NewPolicy("fleet", modules)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

func flat(granted []Access) string {
	var all []string
	for _, a := range granted {
		all = append(all, a.Type+":"+a.Name+":"+strings.Join(a.Actions, ","))
	}
	return strings.Join(all, " ")
}

func TestTokenGrantsOnlyTheUsersPermissions(t *testing.T) {
	policy := fleetPolicy(t, "modules/**", "shared/charts", "fleet/images/**")
	for name, c := range map[string]struct{ user, asked, want string }{
		"runtime pulls its bundle": {
			"a", "repository:fleet/runtimes/a:pull", "repository:fleet/runtimes/a:pull",
		},
		"runtime pushes its report": {
			"a", "repository:fleet/reports/a:pull,push", "repository:fleet/reports/a:pull,push",
		},
		"runtime gets only the requested actions": {
			"a", "repository:fleet/reports/a:pull", "repository:fleet/reports/a:pull",
		},
		"runtime can only pull roots of trust": {
			"a", "repository:fleet/trust:pull,push", "repository:fleet/trust:pull",
		},
		"runtime pulls content": {"a", "repository:fleet/content:pull", "repository:fleet/content:pull"},
		"runtime can only pull a module": {
			"a", "repository:modules/x/y:pull,push,delete", "repository:modules/x/y:pull",
		},
		"runtime pulls a module without a pattern": {
			"a", "repository:shared/charts:pull", "repository:shared/charts:pull",
		},
		"runtime can only pull carried images": {
			"a", "repository:fleet/images/docker.io/nginx:pull,push", "repository:fleet/images/docker.io/nginx:pull",
		},
		"modules user cannot push carried images": {
			UserModules, "repository:fleet/images/docker.io/nginx:pull,push", "",
		},
		"runtime cannot push its bundle": {
			"a", "repository:fleet/runtimes/a:pull,push", "repository:fleet/runtimes/a:pull",
		},
		"runtime cannot delete its report":             {"a", "repository:fleet/reports/a:delete", ""},
		"runtime cannot request all actions":           {"a", "repository:fleet/reports/a:*", ""},
		"runtime cannot pull another runtime's bundle": {"a", "repository:fleet/runtimes/b:pull", ""},
		"runtime cannot pull another runtime's report": {"a", "repository:fleet/reports/b:pull,push", ""},
		"runtime cannot pull the shared documents":     {"a", "repository:fleet/documents:pull", ""},
		"runtime cannot read the catalog":              {"a", "registry:catalog:*", ""},
		"runtime cannot mount from another runtime": {
			"a", "repository:fleet/reports/a:pull,push repository:fleet/runtimes/b:pull",
			"repository:fleet/reports/a:pull,push",
		},
		"runtime a has no access to a-b": {"a", "repository:fleet/runtimes/a-b:pull", ""},
		"runtime a-b has no access to a": {"a-b", "repository:fleet/runtimes/a:pull", ""},
		"runtime a has no access to a1": {
			"a", "repository:fleet/runtimes/a1:pull repository:fleet/reports/a1:push", "",
		},
		"runtime a has no access to a.b":             {"a", "repository:fleet/runtimes/a.b:pull", ""},
		"runtime has no access below its repository": {"a", "repository:fleet/runtimes/a/b:pull", ""},
		"runtime has no access above its repository": {"a", "repository:fleet/runtimes:pull repository:fleet:pull", ""},
		"runtime has no access to another fleet": {
			"a", "repository:fleet2/runtimes/a:pull repository:x/fleet/runtimes/a:pull", "",
		},
		"runtime has no access outside the module patterns": {
			"a", "repository:modules:pull repository:modules2/x:pull repository:shared/charts/x:pull", "",
		},
		"runtime does not have access to other resource types": {"a", "plugin:fleet/runtimes/a:pull", ""},
		"publisher pushes below the prefix": {
			UserPublisher, "repository:fleet/runtimes/a:pull,push repository:fleet/documents:pull,push",
			"repository:fleet/runtimes/a:pull,push repository:fleet/documents:pull,push",
		},
		"publisher can only pull modules": {
			UserPublisher, "repository:modules/x:pull,push", "repository:modules/x:pull",
		},
		"publisher has no access to another fleet": {UserPublisher, "repository:fleet2/runtimes/a:pull", ""},
		"modules user pushes modules": {
			UserModules, "repository:modules/x:pull,push", "repository:modules/x:pull,push",
		},
		"pruner deletes below the prefix": {
			UserPruner, "repository:fleet/runtimes/a:pull,delete", "repository:fleet/runtimes/a:delete,pull",
		},
		"pruner cannot delete roots of trust": {
			UserPruner, "repository:fleet/trust:pull,delete", "repository:fleet/trust:pull",
		},
		"pruner cannot push bundles": {
			UserPruner,
			"repository:fleet/runtimes/a:pull,push repository:fleet/pruning2:push repository:fleet/pruning/x:push",
			"repository:fleet/runtimes/a:pull",
		},
		"pruner pushes its record": {
			UserPruner, "repository:fleet/pruning:pull,push,delete", "repository:fleet/pruning:delete,pull,push",
		},
		"pruner reads the catalog": {UserPruner, "registry:catalog:*", "registry:catalog:*"},
		"pruner has no access to modules": {
			UserPruner, "repository:modules/x:pull,delete repository:fleet2/content:delete", "",
		},
		"publisher cannot delete": {
			UserPublisher, "repository:fleet/runtimes/a:delete registry:catalog:*", "",
		},
		"reader can only pull bundles, reports, shared data and modules": {
			UserReader,
			"repository:fleet/runtimes/a:pull,push repository:fleet/reports/a:pull,push,delete " +
				"repository:fleet/trust:pull,push repository:fleet/content:pull,push repository:modules/x:pull,push,delete",
			"repository:fleet/runtimes/a:pull repository:fleet/reports/a:pull repository:fleet/trust:pull " +
				"repository:fleet/content:pull repository:modules/x:pull",
		},
		"reader has no access to other repositories": {
			UserReader,
			"repository:fleet/documents:pull repository:fleet/carried:pull repository:fleet/pruning:pull " +
				"repository:fleet2/reports/a:pull repository:others/x:pull registry:catalog:*",
			"",
		},
		"modules user has no access to runtimes": {
			UserModules, "repository:fleet/runtimes/a:pull repository:fleet/content:pull", "",
		},
		"empty user has no access": {"", "repository:fleet/runtimes/:pull", ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked, err := parseScopes([]string{c.asked})
			if err != nil {
				if c.want == "" {
					return // the service refuses invalid scopes earlier
				}
				t.Fatal(err)
			}
			if got := flat(policy.Grant(c.user, asked)); got != c.want {
				t.Errorf("%s requested %q and got %q, want %q", c.user, c.asked, got, c.want)
			}
		})
	}
}

func TestInvalidScopesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"name in upper case":            "repository:fleet/runtimes/A:pull",
		"name with ..":                  "repository:fleet/runtimes/a/../b:pull",
		"name with a single dot":        "repository:fleet/runtimes/./b:pull",
		"name with a double slash":      "repository:fleet//runtimes/b:pull",
		"name with a leading slash":     "repository:/fleet/runtimes/b:pull",
		"name with a trailing slash":    "repository:fleet/runtimes/b/:pull",
		"name with URL escapes":         "repository:fleet%2fruntimes%2fb:pull",
		"name with backslashes":         `repository:fleet\runtimes\b:pull`,
		"name with a full-width letter": "repository:fleet/runtimes/ｂ:pull",
		"name with a star":              "repository:fleet/runtimes/*:pull",
		"name with a host":              "repository:registry.example:5000/fleet/runtimes/b:pull",
		"scope without a name":          "repository::pull",
		"scope without an action":       "repository:fleet/runtimes/b:",
		"scope with an empty action":    "repository:fleet/runtimes/b:pull,",
		"resource type with a class":    "repository(plugin):fleet/runtimes/b:pull",
		"two spaces between scopes":     "repository:fleet/runtimes/a:pull  repository:fleet/runtimes/b:pull",
		"name with a line feed":         "repository:fleet/runtimes/a\n:pull",
		"name with a zero byte":         "repository:fleet/runtimes/a\x00:pull",
		"name over the length limit":    "repository:" + strings.Repeat("a", maxNameBytes+1) + ":pull",
		"scope with too many actions":   "repository:a:" + strings.Repeat("pull,", maxActions) + "pull",
		"too many scopes":               strings.TrimSuffix(strings.Repeat("repository:a:pull ", maxScopes+1), " "),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseScopes([]string{text}); err == nil {
				t.Errorf("the scope was accepted as %v", got)
			} else if strings.Contains(err.Error(), "fleet") {
				t.Errorf("the error repeats the caller's text: %v", err)
			}
		})
	}
	got, err := parseScopes([]string{"", "repository:a:push,pull,pull registry:catalog:*", "repository:b:pull"})
	if err != nil || flat(got) != "repository:a:pull,push registry:catalog:* repository:b:pull" {
		t.Errorf("got scopes %q and error %v", flat(got), err)
	}
}

func TestPoliciesThatIncludeFleetRepositoriesAreRefused(t *testing.T) {
	for _, modules := range []string{"fleet/**", "fleet/runtimes/**", "fleet/runtimes", "fleet/runtimes/a",
		"fleet/reports/**", "fleet/documents", "**", "/**", "", "Modules/**", "modules/*", "a/../b", "x/**/y"} {
		if _, err := NewPolicy("fleet", []string{modules}); err == nil {
			t.Errorf("--module-repository %q was accepted", modules)
		}
	}
	for _, modules := range []string{"fleet/trust", "fleet/trust/**", "fleet/trust/x", "fleet/content",
		"fleet/content/**", "fleet/carried", "fleet/carried/x/**", "fleet/documents/**", "fleet/pruning"} {
		area := strings.Split(modules, "/")[1]
		if _, err := NewPolicy("fleet", []string{"modules/**", modules}); err == nil ||
			!strings.Contains(err.Error(), "fleet/"+area+", which") {
			t.Errorf("--module-repository %q: got error %v, want a refusal", modules, err)
		}
	}
	for _, modules := range []string{"modules/**", "fleet/images/**", "fleet/trusted", "fleet/component-descriptors/**",
		"fleet/runtimes2/**", "fleet2/**", "charts"} {
		if _, err := NewPolicy("fleet", []string{modules}); err != nil {
			t.Errorf("--module-repository %q: got error %v, want none", modules, err)
		}
	}
	if _, err := NewPolicy("a/fleet", []string{"a/**"}); err == nil {
		t.Error("a pattern around the whole fleet was accepted")
	}
	for _, prefix := range []string{"", "Fleet", "a//b", "../a"} {
		if _, err := NewPolicy(prefix, nil); err == nil {
			t.Errorf("prefix %q: NewPolicy succeeded, want an error", prefix)
		}
	}
}

// A runtime must not have access to another runtime's repositories, regardless of their IDs.
func TestTokensDoNotGrantAccessToOtherRuntimes(t *testing.T) {
	policy := fleetPolicy(t, "modules/**")
	id := rapid.StringMatching(`[ab1]([ab1.]{0,2}[ab1])?(-[ab1])?`)
	rapid.Check(t, func(t *rapid.T) {
		one, other := id.Draw(t, "one"), id.Draw(t, "other")
		if one == other || CheckUser(one) != nil || CheckUser(other) != nil {
			t.Skip("at least two runtimes are required")
		}
		ending := rapid.SampledFrom([]string{"", "/x", "-x", ".x", "/../" + one}).Draw(t, "ending")
		for _, private := range []string{"fleet/runtimes/", "fleet/reports/"} {
			name := private + other + ending
			if name == private+one {
				continue
			}
			asked := []Access{
				{Type: typeRepository, Name: name, Actions: []string{actionPull, actionPush, "delete", "*"}},
			}
			if got := policy.Grant(one, asked); len(got) > 0 {
				t.Fatalf("runtime %s: got access %v to another runtime, want none", one, got)
			}
		}
	})
}

func TestGrantsNeverExceedTheRequest(t *testing.T) {
	policy := fleetPolicy(t, "modules/**")
	names := []string{
		"fleet/runtimes/a", "fleet/reports/a", "fleet/reports/b", "fleet/trust", "fleet/content", "modules/x",
		"fleet/documents",
	}
	rapid.Check(t, func(t *rapid.T) {
		user := rapid.SampledFrom([]string{"a", "b", UserPublisher, UserModules}).Draw(t, "user")
		asked := []Access{{
			Type: rapid.SampledFrom([]string{"repository", "registry"}).Draw(t, "type"),
			Name: rapid.SampledFrom(names).Draw(t, "name"),
			Actions: rapid.SliceOfDistinct(rapid.SampledFrom([]string{"pull", "push", "delete", "*"}),
				rapid.ID[string]).Draw(t, "actions"),
		}}
		for _, g := range policy.Grant(user, asked) {
			for _, action := range g.Actions {
				if g.Name != asked[0].Name || !slices.Contains(asked[0].Actions, action) || action == "*" ||
					action == "delete" {
					t.Fatalf("requested access %v, got %v, want a subset", asked, g)
				}
			}
		}
	})
}

func FuzzScopes(f *testing.F) {
	policy, err := NewPolicy("fleet", []string{"modules/**"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("repository:fleet/runtimes/b:pull")
	f.Add("repository:fleet/runtimes/a/../b:pull registry:catalog:*")
	f.Fuzz(func(t *testing.T, text string) {
		asked, err := parseScopes([]string{text})
		if err != nil {
			return
		}
		for _, g := range policy.Grant("a", asked) {
			shared := g.Name == "fleet/trust" || g.Name == "fleet/content" || strings.HasPrefix(g.Name, "modules/")
			own := g.Name == "fleet/runtimes/a" || g.Name == "fleet/reports/a"
			if !shared && !own || slices.Contains(g.Actions, "push") && g.Name != "fleet/reports/a" {
				t.Errorf("scope %q: got access %v, which runtime a must not have", text, g)
			}
		}
	})
}
