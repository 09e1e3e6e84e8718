package fleet

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reference/situations.md")

var healthMeanings = map[Health]string{
	Failing:       "something is in the way that does not pass by itself",
	Silent:        "the runtime has reported, and is not heard for longer than allowed",
	NeverReported: "no report was ever accepted: as far as the control plane knows, nothing is enrolled",
	Suspended:     "nothing is published, by the Kyma's label",
	Deleting:      "the Kyma is deleted, and its modules are being removed",
	Behind:        "what was published is not in force yet, or modules are not ready yet",
	Healthy: "what was published runs, and all of it is ready; a rollout or a window may keep a newer version " +
		"back",
}

// page returns the reference page of all situations.
func page() string {
	var out strings.Builder
	out.WriteString(`# Situations

` + "`kcp-publisher why`" + ` names the first situation of a runtime and shows the fix. ` + "`-o json`" + ` has the name as ` + "`situation`" + `, and the UI
and the metrics use the same names. They follow from each Kyma's status, as the publisher wrote it. Words in upper case are
placeholders.

If several situations apply, the first one in this table is reported: they follow the way of a bundle. A runtime has one
health:

| health | meaning |
|---|---|
`)
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

Where one condition has several causes, the reason in ` + "`status.runtime.reasons`" + ` of the Kyma decides.
A reason that is not listed here has the situation of ` + "`Other`" + `. So does a module whose agent reports no reason.

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

// commands marks the command lines in an advice.
func commands(advice string) string {
	parts := strings.Split(advice, ": ")
	for i, part := range parts {
		if !strings.HasPrefix(part, "kubectl ") && !strings.HasPrefix(part, "kcp-publisher ") {
			continue
		}
		command, rest, more := strings.Cut(part, ";")
		if end := strings.Index(command, ", "); end >= 0 {
			command, rest, more = part[:end], part[end:], false
		}
		parts[i] = "`" + command + "`" + rest
		if more {
			parts[i] = "`" + command + "`;" + rest
		}
	}
	return strings.Join(parts, ": ")
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
			t.Errorf("%+v", d)
		}
		seen[d.Situation] = true
	}
	for from, all := range situations {
		for why, situation := range all {
			if !seen[situation] {
				t.Errorf("%s of %s %s is not described", situation, from, why)
			}
		}
	}
}

// The first of two situations is the cause, so problems that resolve by themselves must not hide others.
func TestSelfResolvingSituationsComeLast(t *testing.T) {
	rank := map[Health]int{
		Failing: 0, Silent: 0, NeverReported: 0, Suspended: 0, Deleting: 1, Behind: 2, Healthy: 3, "": 4,
	}
	before := Description{Health: Failing}
	for _, d := range Descriptions() {
		if rank[d.Health] < rank[before.Health] {
			t.Errorf("%s, which is %s, comes after %s", d.Situation, d.Health, before.Situation)
		}
		before = d
	}
}
