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
		Long: "import verifies a file as the agent verifies a registry, and then writes its bundles, contents and " +
			"images to the location.\n" +
			"It can be repeated, because it skips existing content. Pass all volumes (FILE.001, FILE.002, ...) at " +
			"once.\n\n" +
			"Without --trust, import trusts the root of trust of the first file and prints its digest for you to " +
			"compare.\n" +
			"Later imports use the same root. Agents always verify with their own pinned root.\n\n" +
			"The exit code is 0 if all files were imported, and 3 if a file was refused. import writes nothing " +
			"from a refused file.",
		Args: cli.AtLeastOne("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return cli.Usage(errors.New("--to is required"))
			}
			if skew <= 0 {
				return cli.Usage(fmt.Errorf("--clock-skew %s: must be more than 0", skew))
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
				outcome, err = importOne(ctx, cmd, target, file.Paths)
				if err == nil || outcome.PinnedRoot != "" { // a repeated import does not pin the root again
					outcomes = append(outcomes, imported{file.Paths, outcome})
				}
				if err != nil {
					err = fmt.Errorf("%s: %w", file.Paths[0], err)
					break
				}
			}
			return errors.Join(err, printImported(cmd.OutOrStdout(), format, outcomes))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&to, "to", "", "registry prefix HOST/PATH, or oci-layout:DIR")
	flags.StringVar(&trustFile, "trust", "",
		"file with the pinned root of trust; default: the root of the first import")
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
	target := importer.Importer{Target: place, Now: time.Now}
	if trustFile == "" {
		return target, nil
	}
	target.Root, err = cli.ReadRoot(trustFile)
	return target, err
}

func importOne(
	ctx context.Context, cmd *cobra.Command, target importer.Importer, paths []string,
) (importer.Outcome, error) {
	if out := cmd.ErrOrStderr(); cli.IsTerminal(out) {
		target.OnProgress = printProgress(out)
	}
	return target.Import(ctx, paths)
}

// progressStep is the number of bytes between two progress lines. An import prints its progress, because a large file
// takes minutes.
const progressStep = 64 << 20

// printProgress returns a function that adds up processed bytes and prints a line after each progressStep.
func printProgress(out io.Writer) func(int64) {
	var processed, printed int64
	return func(n int64) {
		if processed += n; processed-printed >= progressStep {
			printed = processed
			cli.Printf(out, "checked and imported %d MiB\n", processed>>20)
		}
	}
}

// imported is an entry in the output of the command import.
type imported struct {
	Files            []string `json:"files"`
	importer.Outcome `json:",inline"`
}

func printImported(out io.Writer, format string, outcomes []imported) error {
	return cli.Print(out, format, outcomes, func(out io.Writer) {
		for _, o := range outcomes {
			if o.PinnedRoot != "" {
				cli.Printf(
					out,
					"trusts     root of trust %s of the file, because --trust is not set; compare the digest with "+
						"sha256sum of the fleet's root-1.json or root.json\n",
					o.PinnedRoot,
				)
			}
			cli.Printf(out, "%s: %d blobs and manifests written, %d already present\n", strings.Join(o.Files, " "),
				o.WrittenCount, o.ExistingCount)
			for _, b := range o.Bundles {
				cli.Printf(out, "bundle     %s %d (before: %d) %s\n", b.Runtime, b.Sequence, b.PreviousSequence, b.Digest)
			}
			for _, image := range o.Images {
				cli.Printf(out, "image      %s\n", image)
			}
			for _, mirror := range o.Mirrors {
				cli.Printf(out, "agents need --mirror %s\n", mirror)
			}
		}
	})
}
