package try

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Verdict is the result of a step.
type Verdict struct {
	Step string
	// Checks describes what the step checked.
	Checks string
	// Err is the error of a failed step, or nil.
	Err  error
	Took time.Duration
}

// Result returns "passed", "failed" or "not run".
func (v Verdict) Result() string {
	switch {
	case v.Err == nil:
		return "passed"
	case errors.Is(v.Err, errNotRun):
		return "not run"
	default:
		return "failed"
	}
}

// Passed reports whether all steps passed. It returns false for an empty list.
func Passed(verdicts []Verdict) bool {
	for _, v := range verdicts {
		if v.Err != nil {
			return false
		}
	}
	return len(verdicts) > 0
}

// Print writes verdicts as a table, and the reasons of failed steps below it.
func Print(out io.Writer, verdicts []Verdict) {
	t := table.NewWriter()
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"STEP", "VERDICT", "TOOK", "WHAT WAS CHECKED"})
	for _, v := range verdicts {
		t.AppendRow(table.Row{v.Step, v.Result(), v.Took.Round(100 * time.Millisecond), v.Checks})
	}
	t.Render()
	for _, v := range verdicts {
		if v.Result() == "failed" {
			fmt.Fprintf(out, "\n%s: %v\n", v.Step, v.Err)
		}
	}
}
