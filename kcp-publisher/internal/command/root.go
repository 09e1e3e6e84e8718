// Package command is the command line of kcp-publisher. It parses flags and calls the other packages.
package command

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle/ocm"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/cloudlogin"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/check"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/component"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/diff"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/enrollment"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/events"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/export"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/fleetui"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/images"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyring"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/operator"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/promote"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/publish"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/registry"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/removals"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/reports"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/rollout"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/runtimes"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/status"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/components/signature"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/isolation"
)

// Execute runs the command line and returns the exit code.
func Execute(version string, args []string, out, errOut io.Writer) int {
	return cli.Execute(newProgram(version), isRefused, args, out, errOut)
}

func newProgram(version string) *cobra.Command {
	root, g := cli.NewRoot("kcp-publisher", "resolve Kymas into signed desired-state bundles that runtimes pull",
		version)
	for _, part := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"watch", "Watch a fleet:", []*cobra.Command{
			status.New(), status.NewWhy(), reports.NewLogs(), reports.NewTree(), events.New(), images.New(),
			fleetui.New(g), check.New(),
		}},
		{"change", "Change a fleet:", []*cobra.Command{
			diff.New(), removals.New(), promote.New(), promote.NewTrain(), rollout.New(), runtimes.NewReconcile(),
			runtimes.NewSuspend(), runtimes.NewResume(),
		}},
		{"serve", "Publish:", []*cobra.Command{
			operator.New(g), publish.New(g), registry.New(), registry.NewTokenService(g),
		}},
		{"trust", "Keys and enrollment:", []*cobra.Command{
			keyring.New(), enrollment.NewEnroll(), enrollment.NewRevoke(), enrollment.NewMove(),
		}},
		{"modules", "Modules:", []*cobra.Command{component.New(), component.NewCheckModule()}},
		{"carry", "Air-gapped runtimes:", []*cobra.Command{export.New(), reports.NewImportReport()}},
		{"migrate", "Migrate from lifecycle-manager:", []*cobra.Command{newTakeover()}},
	} {
		root.AddGroup(&cobra.Group{ID: part.id, Title: part.title})
		for _, cmd := range part.commands {
			cmd.GroupID = part.id
		}
		root.AddCommand(part.commands...)
	}
	root.AddCommand(component.NewRender(), component.NewUsedImages())
	cli.UseLogins(root, cloudlogin.NewLogin)
	cli.CompleteConnections(root)
	return root
}

// isRefused reports whether the command completed with a negative result, such as an invalid signature. The exit code
// is then 3.
func isRefused(err error) bool {
	var unsigned signature.Refusal
	var leak *isolation.Leak
	return errors.As(err, &unsigned) || errors.Is(err, ocm.ErrMismatch) || errors.Is(err, status.ErrUnhealthy) ||
		errors.Is(err, diff.ErrDiffers) || errors.As(err, &leak)
}
