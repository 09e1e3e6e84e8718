// Package preflight says whether a program finds what it needs before it runs: files, rights, definitions, a registry
// and the right time.
//
// What a finding means is decided by pure functions of this file and of rights.go, definitions.go and clock.go. They
// take what was seen and return Findings. ask.go and the programs look; nothing here changes anything.
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

// Result is what a check came to.
type Result string

// Results of a check.
const (
	Passed Result = "Passed"
	// Warning is what the program can work with for now, or what somebody should know.
	Warning Result = "Warning"
	// Failed is what the program cannot work with.
	Failed Result = "Failed"
)

// marks stand in front of a line.
var marks = map[Result]string{Passed: "✓", Warning: "!", Failed: "✗"}

// Finding is one check.
type Finding struct {
	Check  string `json:"check"`
	Result Result `json:"result"`
	// Message says what was found.
	Message string `json:"message"`
	// Advice says what to do about it, empty where nothing has to be done.
	Advice string `json:"advice,omitempty"`
}

func passed(check, format string, args ...any) Finding {
	return Finding{Check: check, Result: Passed, Message: fmt.Sprintf(format, args...)}
}

// Pass returns a finding that everything is right.
func Pass(check, message string) Finding { return passed(check, "%s", message) }

// Warn returns a finding that the program can work with.
func Warn(check, message, advice string) Finding { return Finding{check, Warning, message, advice} }

// Fail returns a finding that the program cannot work with.
func Fail(check, message, advice string) Finding { return Finding{check, Failed, message, advice} }

// Summarize returns an error that counts what failed, nil for nothing.
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

// rootWarning is how long before its end a root of trust has to be signed again.
const rootWarning = 30 * 24 * time.Hour

// Root judges a root of trust; from says where it is, and renew how another is made.
func Root(from string, root trust.Root, renew string, now time.Time) Finding {
	const check = "root of trust"
	until := root.Expires.UTC().Format(time.DateOnly)
	switch left := root.Expires.Sub(now); {
	case left <= 0:
		return Fail(check, fmt.Sprintf("version %d of %s expired at %s: every agent refuses what it lists", root.Version, from, until), renew)
	case left < rootWarning:
		return Warn(check, fmt.Sprintf("version %d of %s expires at %s, in %d days", root.Version, from, until, int(left.Hours()/24)), renew)
	}
	return passed(check, "version %d of %s is valid until %s", root.Version, from, until)
}

// KeyFile judges who may read and write the file of a private key. A group may read it, which is how Pods get it from a
// Secret.
func KeyFile(path string, mode fs.FileMode) Finding {
	check := "file " + path
	const other, groupWrites = 0o007, 0o020
	if mode.Perm()&(other|groupWrites) == 0 {
		return passed(check, "mode %04o", mode.Perm())
	}
	who := "everybody on this machine"
	if mode.Perm()&other == 0 {
		who = "its group"
	}
	return Fail(check, fmt.Sprintf("mode %04o: %s may use or change the key", mode.Perm(), who), "chmod 600 "+quoted(path))
}

func quoted(path string) string {
	if strings.ContainsAny(path, " '\"$`\\&;|<>()*?[]#~") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
