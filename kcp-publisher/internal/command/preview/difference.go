package preview

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/forecast"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/gitops/follow"
)

// Difference is the effect of changed objects on the control plane and its fleet.
type Difference struct {
	// Commit is the hash of the compared commit, or empty for a folder.
	Commit  string         `json:"commit,omitempty"`
	Objects []ObjectChange `json:"objects"`
	// Held is the reason why the publisher would wait for an operator's approval before it applies the commit. It is
	// empty if the commit does not require approval.
	Held string `json:"held,omitempty"`
	forecast.Forecast
}

// IsAny reports whether an object or a runtime changes.
func (d Difference) IsAny() bool {
	return len(d.Objects) > 0 || d.Held != "" || d.Changed > 0 || len(d.CreatedRuntimes) > 0 || len(d.Leaving) > 0
}

// ObjectChange is a change to one object.
type ObjectChange struct {
	Action string `json:"action"` // create, change or prune
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Place  string `json:"place,omitempty"`
}

// ObjectChanges lists the changes of a commit.
func ObjectChanges(s follow.Survey) []ObjectChange {
	changes := []ObjectChange{}
	for _, w := range s.Plan.Apply {
		action := "change"
		if s.Live[follow.KeyOf(&w.Object)] == nil {
			action = "create"
		}
		changes = append(changes, ObjectChange{action, w.Object.GetKind(), w.Object.GetName(), w.Place})
	}
	for _, key := range s.Plan.Prune {
		changes = append(changes, ObjectChange{Action: "prune", Kind: key.Kind.Kind, Name: key.Name})
	}
	return changes
}

// Draw prints the difference as text.
func (d Difference) Draw(out io.Writer) {
	if d.Commit != "" {
		cli.Printf(out, "commit %s\n", d.Commit)
	}
	if len(d.Objects) == 0 {
		fmt.Fprintln(out, "no objects differ from the control plane")
	}
	for _, o := range d.Objects {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %-6s  %s %s  %s", o.Action, o.Kind, o.Name, o.Place), " "))
	}
	if d.Held != "" {
		cli.Printf(out, "  held    until an operator allows the commit, because it %s\n", d.Held)
	}
	for _, w := range d.Warnings {
		cli.Printf(out, "  warning %s\n", w)
	}
	for _, r := range d.Rollouts {
		cli.Printf(out, "  begin   Rollout %s by policy %s: %s\n", r.Name, r.Policy, describeWaves(r))
	}
	cli.Printf(out, "\n%d of %d runtimes would change%s\n", d.Changed, d.Runtimes, d.describeWaiting())
	if len(d.CreatedRuntimes) > 0 {
		cli.Printf(out, "  %d would be added: %s\n", len(d.CreatedRuntimes), terminal.JoinRuntimes(d.CreatedRuntimes))
	}
	if len(d.Leaving) > 0 {
		cli.Printf(out, "  %d would be removed with all their modules: %s\n", len(d.Leaving),
			terminal.JoinRuntimes(d.Leaving))
	}
	if len(d.Changes) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"MODULE", "CHANNEL", "FROM", "TO", "RUNTIMES", "HELD"})
	for _, c := range d.Changes {
		to := cmp.Or(c.To, "-")
		if isWaiting(c) {
			to = "unchanged"
		}
		t.AppendRow(table.Row{
			c.Module, cmp.Or(c.Channel, "-"), cmp.Or(c.From, "-"), to,
			fmt.Sprintf("%d: %s", len(c.Runtimes), terminal.JoinRuntimes(c.Runtimes)), c.Held,
		})
	}
	t.Render()
}

// isWaiting reports whether a change is held back, so that its runtimes keep their version for now.
func isWaiting(c forecast.Change) bool { return c.Held != "" && c.To == c.From }

// describeWaiting returns the end of a sentence, such as ", 2 of them later". It counts the runtimes in which all
// changes wait.
func (d Difference) describeWaiting() string {
	now, waiting := map[string]bool{}, map[string]bool{}
	for _, c := range d.Changes {
		for _, runtime := range c.Runtimes {
			if isWaiting(c) {
				waiting[runtime] = true
			} else {
				now[runtime] = true
			}
		}
	}
	for runtime := range now {
		delete(waiting, runtime)
	}
	if len(waiting) == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of them later", len(waiting))
}

func describeWaves(r forecast.Rollout) string {
	var waves []string
	for _, w := range r.Waves {
		text := fmt.Sprintf("%s %d", w.Name, w.Runtimes)
		if w.Approval {
			text += " after approval"
		}
		waves = append(waves, text)
	}
	return strings.Join(waves, ", ")
}
