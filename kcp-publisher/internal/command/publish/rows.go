package publish

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// Result is the outcome for one runtime.
type Result struct {
	Runtime string `json:"runtime"`
	// Action is pushed, would-push, unchanged, skipped or failed. Reason explains it.
	Action   string      `json:"action"`
	Reason   plan.Reason `json:"reason,omitempty"`
	Sequence int64       `json:"sequence,omitempty"`
	Digest   string      `json:"digest,omitempty"`
	Modules  []string    `json:"modules"`
	Removals []string    `json:"removals,omitempty"`
	// Held lists the modules whose removal waits for approval.
	Held     []string         `json:"held,omitempty"`
	Problems []bundle.Problem `json:"problems,omitempty"`
	Registry string           `json:"registry,omitempty"`
	Error    string           `json:"error,omitempty"`
}

func failedRow(runtime string, err error) Result {
	return Result{Runtime: runtime, Action: "failed", Modules: []string{}, Error: err.Error()}
}

// wouldPush marks the rows of a dry run. It clears their sequence number and digest, because a real run would use
// different ones.
func wouldPush(rows []Result) {
	for i := range rows {
		if rows[i].Action == "pushed" {
			rows[i].Action, rows[i].Sequence, rows[i].Digest = "would-push", 0, ""
		}
	}
}

// verdict returns an error that lists the runtimes with a failure, held removals or unresolved modules, and the
// Watchers that were not published.
func (f *publishFlags) verdict(rows []Result, refusedWatchers []string) error {
	var failed, held, unresolved, problems []string
	for _, row := range rows {
		if row.Error != "" {
			failed = append(failed, row.Runtime)
		}
		if len(row.Held) > 0 {
			held = append(held, row.Runtime)
		}
		if slices.ContainsFunc(row.Problems, func(p bundle.Problem) bool {
			return p.State != v1beta2.StateReady && !slices.Contains(row.Held, p.Module)
		}) {
			unresolved = append(unresolved, row.Runtime)
		}
	}
	if len(failed) > 0 {
		problems = append(problems, fmt.Sprintf("publishing to %d of %d runtimes failed (%s)", len(failed), len(rows),
			terminal.JoinRuntimes(slices.Compact(failed))))
	}
	if len(held) > 0 {
		problems = append(problems, fmt.Sprintf("removals of modules from %d of %d runtimes wait for approval (%s): "+
			"see --approve-removals", len(held), len(rows), terminal.JoinRuntimes(held)))
	}
	if len(refusedWatchers) > 0 {
		problems = append(problems, "invalid Watchers were not published: "+strings.Join(refusedWatchers, ", "))
	}
	switch {
	case len(problems) > 0:
		return errors.New(strings.Join(problems, "; "))
	case len(unresolved) > 0 && !f.allowUnresolved:
		return fmt.Errorf(
			"modules of %d of %d runtimes did not resolve (%s): fix the listed problems, or set "+
				"--allow-unresolved", len(unresolved), len(rows), terminal.JoinRuntimes(unresolved))
	}
	return nil
}

func drawPublished(out io.Writer, rows []Result) {
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"RUNTIME", "ACTION", "REASON", "SEQUENCE", "DIGEST", "MODULES", "PROBLEMS"})
	for _, row := range rows {
		problems := make([]string, 0, len(row.Problems))
		for _, p := range row.Problems {
			problems = append(problems, p.Message)
		}
		for _, text := range []string{row.Registry, row.Error} {
			if text != "" {
				problems = append(problems, text)
			}
		}
		t.AppendRow(table.Row{
			row.Runtime, row.Action, row.Reason, row.Sequence, terminal.ShortDigest(row.Digest), strings.Join(row.Modules, ", "),
			problems,
		})
	}
	t.Render()
}
