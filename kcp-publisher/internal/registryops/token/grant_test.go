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

// flat writes a grant as scopes.
func flat(granted []Access) string {
	var all []string
	for _, a := range granted {
		all = append(all, a.Type+":"+a.Name+":"+strings.Join(a.Actions, ","))
	}
	return strings.Join(all, " ")
}

func TestGrantIsTheRequestedPartOfTheUsersRights(t *testing.T) {
	policy := fleetPolicy(t, "modules/**", "shared/charts")
	for name, c := range map[string]struct{ user, asked, want string }{
		"its bundle": {
			"a", "repository:fleet/runtimes/a:pull", "repository:fleet/runtimes/a:pull",
		},
		"its report": {
			"a", "repository:fleet/reports/a:pull,push", "repository:fleet/reports/a:pull,push",
		},
		"no more than it asked": {
			"a", "repository:fleet/reports/a:pull", "repository:fleet/reports/a:pull",
		},
		"roots of trust": {
			"a", "repository:fleet/trust:pull,push", "repository:fleet/trust:pull",
		},
		"content": {"a", "repository:fleet/content:pull", "repository:fleet/content:pull"},
		"a module": {
			"a", "repository:modules/x/y:pull,push,delete", "repository:modules/x/y:pull",
		},
		"a module named whole": {"a", "repository:shared/charts:pull", "repository:shared/charts:pull"},
		"not to write its bundle": {
			"a", "repository:fleet/runtimes/a:pull,push", "repository:fleet/runtimes/a:pull",
		},
		"not to delete its report":   {"a", "repository:fleet/reports/a:delete", ""},
		"not every action by a star": {"a", "repository:fleet/reports/a:*", ""},
		"not another's bundle":       {"a", "repository:fleet/runtimes/b:pull", ""},
		"not another's report":       {"a", "repository:fleet/reports/b:pull,push", ""},
		"not the documents of all":   {"a", "repository:fleet/documents:pull", ""},
		"not the catalog":            {"a", "registry:catalog:*", ""},
		"not a mount from another": {
			"a", "repository:fleet/reports/a:pull,push repository:fleet/runtimes/b:pull",
			"repository:fleet/reports/a:pull,push",
		},
		"not whose name it begins (a, a-b)": {"a", "repository:fleet/runtimes/a-b:pull", ""},
		"not whose name begins it (a-b, a)": {"a-b", "repository:fleet/runtimes/a:pull", ""},
		"not whose name it begins (a, a1)": {
			"a", "repository:fleet/runtimes/a1:pull repository:fleet/reports/a1:push", "",
		},
		"not whose name it begins (a, a.b)": {"a", "repository:fleet/runtimes/a.b:pull", ""},
		"nothing below its own":             {"a", "repository:fleet/runtimes/a/b:pull", ""},
		"nothing above its own":             {"a", "repository:fleet/runtimes:pull repository:fleet:pull", ""},
		"nothing of another fleet": {
			"a", "repository:fleet2/runtimes/a:pull repository:x/fleet/runtimes/a:pull", "",
		},
		"not what a pattern ends before": {
			"a", "repository:modules:pull repository:modules2/x:pull repository:shared/charts/x:pull", "",
		},
		"another type of resource": {"a", "plugin:fleet/runtimes/a:pull", ""},
		"the publisher writes below the fleet": {
			UserPublisher, "repository:fleet/runtimes/a:pull,push repository:fleet/documents:pull,push",
			"repository:fleet/runtimes/a:pull,push repository:fleet/documents:pull,push",
		},
		"the publisher only reads modules": {
			UserPublisher, "repository:modules/x:pull,push", "repository:modules/x:pull",
		},
		"the publisher has no other fleet": {UserPublisher, "repository:fleet2/runtimes/a:pull", ""},
		"who releases modules writes them": {
			UserModules, "repository:modules/x:pull,push", "repository:modules/x:pull,push",
		},
		"who prunes deletes below the fleet": {
			UserPruner, "repository:fleet/runtimes/a:pull,delete", "repository:fleet/runtimes/a:delete,pull",
		},
		"who prunes deletes no root of trust": {
			UserPruner, "repository:fleet/trust:pull,delete", "repository:fleet/trust:pull",
		},
		"who prunes pushes no bundle": {
			UserPruner,
			"repository:fleet/runtimes/a:pull,push repository:fleet/pruning2:push repository:fleet/pruning/x:push",
			"repository:fleet/runtimes/a:pull",
		},
		"who prunes writes its note": {
			UserPruner, "repository:fleet/pruning:pull,push,delete", "repository:fleet/pruning:delete,pull,push",
		},
		"who prunes sees the catalog": {UserPruner, "registry:catalog:*", "registry:catalog:*"},
		"who prunes has no modules": {
			UserPruner, "repository:modules/x:pull,delete repository:fleet2/content:delete", "",
		},
		"the publisher deletes nothing": {
			UserPublisher, "repository:fleet/runtimes/a:delete registry:catalog:*", "",
		},
		"who releases modules has no runtimes": {
			UserModules, "repository:fleet/runtimes/a:pull repository:fleet/content:pull", "",
		},
		"nobody has no rights": {"", "repository:fleet/runtimes/:pull", ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked, err := parseScopes([]string{c.asked})
			if err != nil {
				if c.want == "" {
					return // refused before a grant is computed
				}
				t.Fatal(err)
			}
			if got := flat(policy.Grant(c.user, asked)); got != c.want {
				t.Errorf("%s asks for %q and gets %q, want %q", c.user, c.asked, got, c.want)
			}
		})
	}
}

func TestScopesHaveOneSpelling(t *testing.T) {
	for name, text := range map[string]string{
		"upper case":              "repository:fleet/runtimes/A:pull",
		"a part above":            "repository:fleet/runtimes/a/../b:pull",
		"a part that is a dot":    "repository:fleet/runtimes/./b:pull",
		"doubled slashes":         "repository:fleet//runtimes/b:pull",
		"a slash before":          "repository:/fleet/runtimes/b:pull",
		"a slash behind":          "repository:fleet/runtimes/b/:pull",
		"escapes":                 "repository:fleet%2fruntimes%2fb:pull",
		"a backslash":             `repository:fleet\runtimes\b:pull`,
		"another script":          "repository:fleet/runtimes/ｂ:pull",
		"a star":                  "repository:fleet/runtimes/*:pull",
		"a host":                  "repository:registry.example:5000/fleet/runtimes/b:pull",
		"no name":                 "repository::pull",
		"no action":               "repository:fleet/runtimes/b:",
		"an empty action":         "repository:fleet/runtimes/b:pull,",
		"a type with a class":     "repository(plugin):fleet/runtimes/b:pull",
		"two spaces":              "repository:fleet/runtimes/a:pull  repository:fleet/runtimes/b:pull",
		"a line feed":             "repository:fleet/runtimes/a\n:pull",
		"a zero byte":             "repository:fleet/runtimes/a\x00:pull",
		"a name that is too long": "repository:" + strings.Repeat("a", maxNameBytes+1) + ":pull",
		"too many actions":        "repository:a:" + strings.Repeat("pull,", maxActions) + "pull",
		"too many scopes":         strings.TrimSuffix(strings.Repeat("repository:a:pull ", maxScopes+1), " "),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseScopes([]string{text}); err == nil {
				t.Errorf("was read as %v", got)
			} else if strings.Contains(err.Error(), "fleet") {
				t.Errorf("the error repeats the caller's text: %v", err)
			}
		})
	}
	got, err := parseScopes([]string{"", "repository:a:push,pull,pull registry:catalog:*", "repository:b:pull"})
	if err != nil || flat(got) != "repository:a:pull,push registry:catalog:* repository:b:pull" {
		t.Errorf("got %q, %v", flat(got), err)
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
			t.Errorf("--module-repository %q: got %v", modules, err)
		}
	}
	for _, modules := range []string{"modules/**", "fleet/images/**", "fleet/trusted", "fleet/component-descriptors/**",
		"fleet/runtimes2/**", "fleet2/**", "charts"} {
		if _, err := NewPolicy("fleet", []string{modules}); err != nil {
			t.Errorf("--module-repository %q: %v", modules, err)
		}
	}
	if _, err := NewPolicy("a/fleet", []string{"a/**"}); err == nil {
		t.Error("a pattern around the whole fleet was accepted")
	}
	for _, prefix := range []string{"", "Fleet", "a//b", "../a"} {
		if _, err := NewPolicy(prefix, nil); err == nil {
			t.Errorf("prefix %q was accepted", prefix)
		}
	}
}

// Two runtimes share only the shared repositories, whatever their names are.
func TestRuntimesCannotReachEachOther(t *testing.T) {
	policy := fleetPolicy(t, "modules/**")
	id := rapid.StringMatching(`[ab1]([ab1.]{0,2}[ab1])?(-[ab1])?`)
	rapid.Check(t, func(t *rapid.T) {
		one, other := id.Draw(t, "one"), id.Draw(t, "other")
		if one == other || CheckUser(one) != nil || CheckUser(other) != nil {
			t.Skip("want two runtimes")
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
				t.Fatalf("%s may %v", one, got)
			}
		}
	})
}

func TestGrantsAreNeverMoreThanAsked(t *testing.T) {
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
					t.Fatalf("asked for %v, got %v", asked, g)
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
				t.Errorf("%q gives %v", text, g)
			}
		}
	})
}
