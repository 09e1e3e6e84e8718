package fleet

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reference/situations.md")

var healthMeanings = map[Health]string{
	Failing:       "a problem that does not resolve by itself",
	Silent:        "the runtime has reported before, but not within the allowed time",
	NeverReported: "no report was ever accepted: as far as the control plane knows, no agent is enrolled",
	Suspended:     "publishing is suspended by a label of the Kyma",
	Deleting:      "the Kyma is being deleted, and its modules are being removed",
	Behind:        "the latest bundle is not applied yet, or modules are not ready yet",
	Healthy: "the latest bundle is applied, and all modules are ready; a rollout or maintenance window can hold back " +
		"a newer version",
}

func page() string {
	var out strings.Builder
	out.WriteString(strings.ReplaceAll(`# Situations

A situation is the cause of a runtime's health. "kcp-publisher why" shows the situation of a runtime and the fix. The
fleet UI, the metrics and the field "situation" of "-o json" use the same names. Words in upper case are placeholders.

If several situations apply to a runtime, the first one in the second table is its cause. That table follows the path of
a bundle from the control plane to the runtime. The publisher and the commands derive each situation from the Kyma's
status.

| health | meaning |
|---|---|
`, `"`, "`"))
	for _, h := range Healths() {
		fmt.Fprintf(&out, "| `%s` | %s |\n", h, healthMeanings[h])
	}
	out.WriteString("\n| situation | health | meaning | fix |\n|---|---|---|---|\n")
	row := func(d Description) {
		health := "`" + string(d.Health) + "`"
		if d.Health == "" {
			health = "the whole fleet"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", d.Situation, health, d.Meaning, commands(d.Advice))
	}
	for _, d := range Descriptions() {
		row(d)
	}
	out.WriteString(`
## Reasons

If a condition has several causes, the reason in ` + "`status.runtime.reasons`" + ` determines the situation. A reason
that is not listed here has the situation of ` + "`Other`" + `. If an agent reports no reason for a module,
` + "`Other`" + ` also applies.

| field of status.runtime.reasons | reason | situation |
|---|---|---|
`)
	for _, from := range []source{fromPublish, fromSealing, fromReport, fromBundle, fromProblem, fromModule} {
		for _, why := range slices.Sorted(maps.Keys(situations[from])) {
			fmt.Fprintf(&out, "| `%s` | `%s` | `%s` |\n", from, why, situations[from][why])
		}
	}
	return out.String()
}

// A command ends at a semicolon, or at a comma before a space. Text in single quotes belongs to the command.
var command = regexp.MustCompile(`(?:kubectl|kcp-publisher) (?:'[^']*'|[^';,]|,\S)*`)

// commands returns the advice with its commands in backquotes.
func commands(advice string) string {
	return command.ReplaceAllStringFunc(strings.ReplaceAll(advice, "`", ""), func(found string) string {
		return "`" + strings.ReplaceAll(found, " and kcp-publisher ", "` and `kcp-publisher ") + "`"
	})
}

func TestReferenceListsEverySituation(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "docs", "reference", "situations.md")
	if *update {
		if err := os.WriteFile(path, []byte(page()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	has, err := os.ReadFile(path)
	if err != nil || string(has) != page() {
		t.Errorf(
			"docs/reference/situations.md differs from the table, %v: go test ./kcp-publisher/internal/core/fleet "+
				"-update, and review the difference", err)
	}
}

func TestSituationsHaveOneShortDescription(t *testing.T) {
	seen := map[Situation]bool{}
	for _, d := range Descriptions() {
		if seen[d.Situation] || d.Situation == "" || d.Meaning == "" || d.Advice == "" || len(d.Advice) > 300 ||
			strings.Contains(d.Meaning+d.Advice, "|") {
			t.Errorf("duplicate, incomplete or too long description: %+v", d)
		}
		seen[d.Situation] = true
	}
	for from, all := range situations {
		for why, situation := range all {
			if !seen[situation] {
				t.Errorf("situation %s of reason %s in %s has no description", situation, why, from)
			}
		}
	}
}

// If several situations apply to a runtime, the first one in Descriptions is the cause of its health.
func TestMostUrgentSituationsComeFirst(t *testing.T) {
	rank := map[Health]int{
		Failing: 0, Silent: 0, NeverReported: 0, Suspended: 0, Deleting: 1, Behind: 2, Healthy: 3, "": 4,
	}
	before := Description{Health: Failing}
	for _, d := range Descriptions() {
		if rank[d.Health] < rank[before.Health] {
			t.Errorf("%s with health %s comes after %s with health %s", d.Situation, d.Health, before.Situation,
				before.Health)
		}
		before = d
	}
}
