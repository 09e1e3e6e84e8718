// Package preflight checks the requirements of a program before it runs: files, rights, definitions, a registry and the
// clock.
//
// Pure functions in this file and in rights.go, definitions.go and clock.go take observations and return Findings.
// ask.go and the programs collect the observations. Nothing in this package changes anything.
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
	// Warning does not stop the program now, but an operator should check it.
	Warning Result = "Warning"
	// Failed stops the program from working.
	Failed Result = "Failed"
)

// marks stand in front of a line.
var marks = map[Result]string{Passed: "✓", Warning: "!", Failed: "✗"}

// Finding is one check with its result.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	// Message is the observation.
	Message string `json:"message"`
	// Advice is the remedy, empty if none is needed.
	Advice string `json:"advice,omitempty"`
}

func passed(check, format string, args ...any) Finding {
	return Finding{Check: check, Result: Passed, Message: fmt.Sprintf(format, args...)}
}

// Pass returns a finding of a passed check.
func Pass(check, message string) Finding { return passed(check, "%s", message) }

// Warn returns a finding with a warning.
func Warn(check, message, advice string) Finding { return Finding{check, Warning, message, advice} }

// Fail returns a finding of a failed check.
func Fail(check, message, advice string) Finding { return Finding{check, Failed, message, advice} }

// Summarize returns an error that counts the failed checks, or nil.
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

// Draw writes a line for each finding, and its advice below.
func Draw(out io.Writer, findings []Finding) {
	for _, f := range findings {
		fmt.Fprintf(out, "%s %s: %s\n", marks[f.Result], f.Check, bundle.PrintableLine(f.Message))
		if f.Advice != "" {
			fmt.Fprintf(out, "    %s\n", bundle.PrintableLine(f.Advice))
		}
	}
}

// rootWarning is the remaining validity of a root of trust that causes a warning.
const rootWarning = 30 * 24 * time.Hour

// Root judges a root of trust. from is its location, and renew the instruction to renew it.
func Root(from string, root trust.Root, renew string, now time.Time) Finding {
	const check = "root of trust"
	until := root.Expires.UTC().Format(time.DateOnly)
	switch left := root.Expires.Sub(now); {
	case left <= 0:
		return Fail(check,
			fmt.Sprintf("version %d of %s expired at %s: agents refuse the bundles that it lists", root.Version, from,
				until), renew)
	case left < rootWarning:
		return Warn(check,
			fmt.Sprintf("version %d of %s expires at %s, in %d days", root.Version, from, until, int(left.Hours()/24)),
			renew)
	}
	return passed(check, "version %d of %s is valid until %s", root.Version, from, until)
}

// KeyFile judges the permissions of a private key's file. A group may read it, which is how Pods read it from a Secret.
func KeyFile(path string, mode fs.FileMode) Finding {
	check := "file " + path
	const other, groupWrites = 0o007, 0o020
	if mode.Perm()&(other|groupWrites) == 0 {
		return passed(check, "mode %04o", mode.Perm())
	}
	who := "every user of this machine"
	if mode.Perm()&other == 0 {
		who = "its group"
	}
	return Fail(check, fmt.Sprintf("mode %04o: %s may use or change the key", mode.Perm(), who),
		"chmod 600 "+quoted(path))
}

func quoted(path string) string {
	if strings.ContainsAny(path, " '\"$`\\&;|<>()*?[]#~") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
