package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/importer"
)

func newImport() *cobra.Command {
	var to, trustFile, format string
	var skew time.Duration
	var registry cli.Registry
	cmd := &cobra.Command{
		Use: "import FILE... --to LOCATION [--trust FILE]", Short: "import files from `kcp-publisher export`",
		Long: "import checks a file as the agent checks a registry, and only then writes its bundles, contents and " +
			"images to the location. It\n" +
			"may be repeated: existing content is not written again. Pass all volumes (FILE.001, FILE.002, ...) at " +
			"once.\n\n" +
			"Without --trust it follows the root of trust of the first import, which it trusts and prints: compare " +
			"it. Agents always verify with\n" +
			"their own pinned root.\n\n" +
			"It exits with 0 if everything is there, and with 3 if it refused a file and wrote nothing of it.",
		Args: cli.AtLeastOne("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return cli.Usage(errors.New("--to is required"))
			}
			if skew <= 0 {
				return cli.Usage(fmt.Errorf("--clock-skew %s: want more than 0", skew))
			}
			target, err := newImporter(&registry, to, trustFile)
			if err != nil {
				return err
			}
			target.ClockSkew = skew
			files := airgap.Files(args)
			for _, file := range files {
				if file.Incomplete != nil {
					return file.Incomplete
				}
			}
			ctx := cmd.Context()
			outcomes := []imported{}
			for _, file := range files {
				var outcome importer.Outcome
				if outcome, err = importOne(ctx, cmd, target, file.Paths); err != nil {
					err = fmt.Errorf("%s: %w", file.Paths[0], err)
					break
				}
				outcomes = append(outcomes, imported{file.Paths, outcome})
			}
			return errors.Join(err, printImported(cmd.OutOrStdout(), format, outcomes))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&to, "to", "", "registry prefix HOST/PATH, or oci-layout:DIR")
	flags.StringVar(&trustFile, "trust", "", "pinned root of trust; default: the root of the first import")
	flags.DurationVar(&skew, "clock-skew", trust.MaxClockSkew, clockSkewUsage)
	cli.OutputFlag(flags, &format)
	registry.AddFlags(flags)
	return cmd
}

func newImporter(registry *cli.Registry, to, trustFile string) (importer.Importer, error) {
	place, _, err := registry.Open("--to", to, store.Access{RequestTimeout: cli.TransferTimeout})
	if err != nil {
		return importer.Importer{}, err
	}
	target := importer.Importer{To: place, Now: time.Now}
	if trustFile == "" {
		return target, nil
	}
	target.Root, err = cli.ReadRoot(trustFile)
	return target, err
}

func importOne(
	ctx context.Context, cmd *cobra.Command, target importer.Importer, paths []string,
) (importer.Outcome, error) {
	advance, done := cli.Bytes(cmd.ErrOrStderr(), "checking and importing", -1)
	defer done()
	target.Advance = advance
	return target.Import(ctx, paths)
}

// imported is one row of the output of `import`.
type imported struct {
	Files            []string `json:"files"`
	importer.Outcome `json:",inline"`
}

func printImported(out io.Writer, format string, outcomes []imported) error {
	return cli.Print(out, format, outcomes, func(out io.Writer) {
		for _, o := range outcomes {
			if o.TrustedAtFirst != "" {
				fmt.Fprintf(
					out,
					"trusts     root of trust %s: using the file's own, as no --trust was given; compare it with "+
						"sha256sum of the fleet's root-1.json or root.json\n",
					o.TrustedAtFirst,
				)
			}
			fmt.Fprintf(out, "%s: %d written, %d there already\n", strings.Join(o.Files, " "), o.Written, o.Known)
			for _, b := range o.Bundles {
				fmt.Fprintf(out, "bundle     %s %d (before: %d) %s\n", b.Runtime, b.Sequence, b.Before, b.Digest)
			}
			for _, image := range o.Images {
				fmt.Fprintf(out, "image      %s\n", image)
			}
			for _, mirror := range o.Mirrors {
				fmt.Fprintf(out, "agents need --mirror %s\n", mirror)
			}
		}
	})
}
