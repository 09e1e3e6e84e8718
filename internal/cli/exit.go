package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// Exit codes for kcp-publisher and skr-agent. Scripts can rely on them.
const (
	ExitDone    = 0
	ExitFailed  = 1
	ExitUsage   = 2
	ExitRefused = 3
)

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks an error as a usage error. Execute then returns ExitUsage and points to --help.
func Usage(err error) error { return usageError{err} }

// IsUsage reports whether an error is a usage error.
func IsUsage(err error) bool { return errors.As(err, new(usageError)) }

// Execute runs a program's command line and returns its exit code. SIGINT and SIGTERM cancel the command's context.
// Control characters in the output are escaped.
//
// Execute returns ExitRefused if the error is a *refusal.Error, or if the function refused returns true for the error.
// This function can be nil.
func Execute(root *cobra.Command, refused func(error) bool, args []string, out, errOut io.Writer) int {
	shown, stderr := &escapingWriter{out: out}, &escapingWriter{out: errOut}
	defer shown.flush()
	defer stderr.flush()
	root.SetArgs(args)
	root.SetOut(shown)
	root.SetErr(stderr)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal terminates the program immediately
	refuseUnknownTopics(root)
	completeFixed(root)
	readConfigFirst(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitDone
	}
	fmt.Fprintf(stderr, "%s: %v\n", root.DisplayName(), err)
	if text := hint(err); text != "" {
		fmt.Fprintf(stderr, "hint: %s\n", text)
	}
	switch {
	case IsUsage(err):
		fmt.Fprintf(stderr, "run `%s --help`\n", cmd.CommandPath())
		return ExitUsage
	case refusal.Of(err) != nil, refused != nil && refused(err):
		return ExitRefused
	}
	return ExitFailed
}
