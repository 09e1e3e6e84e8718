// Package preflight checks a program's requirements before it runs: files, permissions, CRDs, a registry and the clock.
// The checks do not change anything.
//
// The functions in this file and in rights.go, definitions.go and clock.go are pure. They take observations, such as
// the status of a response, and return Findings. ask.go and the programs make the observations.
package preflight

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Result is the result of a check.
type Result string

// Results of a check.
const (
	Passed Result = "Passed"
	// Warning means that the program can run, but an operator should fix the problem.
	Warning Result = "Warning"
	// Failed means that the program cannot work.
	Failed Result = "Failed"
)

// resultSymbols maps results to the symbols that Draw prints.
var resultSymbols = map[Result]string{Passed: "✓", Warning: "!", Failed: "✗"}

// Finding is one check with its result.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	// Message is the result in one sentence.
	Message string `json:"message"`
	// Advice explains how to fix the problem. It is empty if no fix is needed or known.
	Advice string `json:"advice,omitempty"`
}

func newPassed(check, format string, args ...any) Finding {
	return Finding{Check: check, Result: Passed, Message: fmt.Sprintf(format, args...)}
}

// Pass returns the finding for a passed check.
func Pass(check, message string) Finding { return newPassed(check, "%s", message) }

// Warn returns a finding with a warning.
func Warn(check, message, advice string) Finding { return Finding{check, Warning, message, advice} }

// Fail returns the finding for a failed check.
func Fail(check, message, advice string) Finding { return Finding{check, Failed, message, advice} }

// Summarize returns an error with the number of failed checks, or nil if no check failed.
func Summarize(findings []Finding) error {
	failed := 0
	for _, f := range findings {
		if f.Result == Failed {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks failed", failed, len(findings))
}

// Draw writes one line for each finding, followed by a line with the advice if the finding has advice.
func Draw(out io.Writer, findings []Finding) {
	for _, f := range findings {
		fmt.Fprintf(out, "%s %s: %s\n", resultSymbols[f.Result], f.Check, bundle.PrintableLine(f.Message))
		if f.Advice != "" {
			fmt.Fprintf(out, "    %s\n", bundle.PrintableLine(f.Advice))
		}
	}
}

// rootWarning is the remaining validity of a root of trust below which Root returns a warning.
const rootWarning = 30 * 24 * time.Hour

// Root returns the finding for the expiry of a root of trust. Its location is in from, and the advice for renewing it
// is in renew.
func Root(from string, root trust.Root, renew string, now time.Time) Finding {
	const check = "root of trust"
	until := root.Expires.UTC().Format(time.DateOnly)
	switch left := root.Expires.Sub(now); {
	case left <= 0:
		return Fail(check,
			fmt.Sprintf("version %d of %s expired at %s: agents refuse bundles signed with its keys", root.Version,
				from, until), renew)
	case left < rootWarning:
		return Warn(check,
			fmt.Sprintf("version %d of %s expires at %s, in %d days", root.Version, from, until, int(left.Hours()/24)),
			renew)
	}
	return newPassed(check, "version %d of %s is valid until %s", root.Version, from, until)
}

// KeyFile returns the finding for the mode of a private key file. The group can have read permission, as in a Secret
// volume.
func KeyFile(path string, mode fs.FileMode) Finding {
	check := "file " + path
	const other, groupWrites = 0o007, 0o020
	if mode.Perm()&(other|groupWrites) == 0 {
		return newPassed(check, "mode %04o", mode.Perm())
	}
	who := "every user of this machine"
	if mode.Perm()&other == 0 {
		who = "its group"
	}
	return Fail(check, fmt.Sprintf("mode %04o: %s can read or change the key", mode.Perm(), who),
		"chmod 600 "+quotePath(path))
}

func quotePath(path string) string {
	if strings.ContainsAny(path, " '\"$`\\&;|<>()*?[]#~") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
