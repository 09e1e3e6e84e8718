// Package command is the command line of kcp-publisher: flags go in, the other packages do the work.
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
	return cli.Execute(newProgram(version), refused, args, out, errOut)
}

func newProgram(version string) *cobra.Command {
	root, g := cli.NewRoot("kcp-publisher", "resolves Kymas into signed desired-state bundles that runtimes pull", version)
	root.AddCommand(newRun(g), newCheck(), newPublish(g), newKeys(), newEnroll(), newRevoke(), newReconcile(), newSuspend(), newResume(), newStatus(), newWhy(), newRollout(), newComponent(), newRegistry(), newTokenService(g),
		newPromote(), newDiff(), newExport(), newImportReport(), newTakeover(), newUI(g), newRender())
	return root
}

// refused reports whether an error is a verdict on what was checked, not a failure to check it.
func refused(err error) bool {
	var unsigned signature.Refusal
	var leak *isolation.Leak
	return errors.As(err, &unsigned) || errors.Is(err, ocm.ErrDiffers) || errors.Is(err, errUnwell) || errors.As(err, &leak)
}
