// Package command is the command line of kcp-publisher. It parses flags and calls the other packages.
package command

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/signature"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/isolation"
)

// Execute runs the command line and returns the exit code.
func Execute(version string, args []string, out, errOut io.Writer) int {
	return cli.Execute(newProgram(version), isRefused, args, out, errOut)
}

func newProgram(version string) *cobra.Command {
	root, g := cli.NewRoot("kcp-publisher", "resolves Kymas into signed desired-state bundles that runtimes pull",
		version)
	for _, part := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"watch", "Watch a fleet:", []*cobra.Command{
			newStatus(), newWhy(), newLogs(), newTree(), newEvents(), newImages(), newUI(g), newCheck(),
		}},
		{"change", "Change a fleet:", []*cobra.Command{
			newDiff(), newRemovals(), newPromote(), newTrain(), newRollout(), newReconcile(), newSuspend(), newResume(),
		}},
		{"serve", "Publish:", []*cobra.Command{newRun(g), newPublish(g), newRegistry(), newTokenService(g)}},
		{"trust", "Keys and enrollment:", []*cobra.Command{newKeys(), newEnroll(), newRevoke(), newMove()}},
		{"modules", "Modules:", []*cobra.Command{newComponent(), newCheckModule()}},
		{"carry", "Air-gapped runtimes:", []*cobra.Command{newExport(), newImportReport()}},
		{"migrate", "Migrate from lifecycle-manager:", []*cobra.Command{newTakeover()}},
	} {
		root.AddGroup(&cobra.Group{ID: part.id, Title: part.title})
		for _, cmd := range part.commands {
			cmd.GroupID = part.id
		}
		root.AddCommand(part.commands...)
	}
	root.AddCommand(newRender())
	cli.CompleteConnections(root)
	return root
}

// isRefused reports whether the command completed with a negative result, such as an invalid signature. The exit code
// is then 3.
func isRefused(err error) bool {
	var unsigned signature.Refusal
	var leak *isolation.Leak
	return errors.As(err, &unsigned) || errors.Is(err, ocm.ErrMismatch) || errors.Is(err, errUnhealthy) ||
		errors.Is(err, errDiffers) || errors.As(err, &leak)
}
