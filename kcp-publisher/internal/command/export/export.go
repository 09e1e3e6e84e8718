// Package export implements the command that exports bundles for air-gapped runtimes.
package export

import (
	"context"
	"fmt"
	"io"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/keyfolder"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/reports"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

type exportFlags struct {
	from, file, volumeSize, format string
	flagset.RenderingFlags
	since, platforms             []string
	images, offers, zstd, dryRun bool
	keys                         keys.Folder
	registry                     cli.Registry
}

// New returns the command export.
func New() *cobra.Command {
	f := &exportFlags{}
	cmd := &cobra.Command{
		Use: "export RUNTIME-ID... -o FILE", Short: "export bundles to a file for runtimes without a network connection",
		Long: "export writes the latest bundles of the runtimes with all required content to one OCI layout in a tar " +
			"file, for `skr-agent import`.\n" +
			"If export is interrupted, repeat the command to continue from FILE.partial.",
		Args: cli.AtLeastOne("runtime ID"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "source for the bundles: registry prefix HOST/PATH, or oci-layout:DIR")
	flags.StringVarP(&f.file, "output", "o", "",
		"file to write; use --format, not -o, to set the output format")
	flags.StringArrayVar(&f.since, "since", nil,
		"omit content that a runtime already has: path to the runtime's report file, or for a single runtime "+
			"the digest of its applied bundle; can be repeated")
	flags.BoolVar(&f.images, "images", false,
		"include container images: the images in the desired state and in the objects of the modules")
	f.Add(flags, "with --images: ")
	flags.BoolVar(&f.offers, "offers", true,
		"include modules that runtimes can install on their own; see run --agent-autonomy")
	flags.StringSliceVar(&f.platforms, "platform", nil,
		"platforms of images to include, such as linux/amd64; default: all. Images referenced by digest always "+
			"include all platforms")
	flags.BoolVar(&f.zstd, "zstd", false, "compress the file")
	flags.StringVar(&f.volumeSize, "volume-size", "",
		"split the file into FILE.001, FILE.002, ... of at most this size, such as 4G")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show the file's content without writing it")
	cli.FormatFlag(flags, &f.format, "format", "")
	keyfolder.AddPublisherFlags(flags, &f.keys)
	f.registry.AddFlags(flags)
	return cmd
}

type exportResult struct {
	Files        []string       `json:"files"`
	SizeBytes    int64          `json:"sizeBytes"`
	LeftOutBytes int64          `json:"leftOutBytes"`
	Contents     []export.Entry `json:"contents"`
	// Unlisted lists the modules with unknown images: their components do not list images, and no renderer was
	// available.
	Unlisted []string `json:"unlistedImages,omitempty"`
	// Modules lists the images of each module, if the user requested images.
	Modules []export.ModuleImages `json:"modules,omitempty"`
}

func (f *exportFlags) run(cmd *cobra.Command, runtimes []string) error {
	ctx := cmd.Context()
	options, packing, err := f.options(ctx, runtimes)
	if err != nil {
		return err
	}
	if note := flagset.UnconfinedWarning(goruntime.GOOS); options.Rendering != nil && note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	parcel, err := export.Gather(ctx, options)
	if err != nil {
		return err
	}
	result := exportResult{
		Files: []string{}, SizeBytes: parcel.Layout.SizeBytes(), Contents: parcel.Contents, Unlisted: parcel.Unlisted,
		Modules: parcel.Modules,
	}
	for _, entry := range parcel.Contents {
		result.LeftOutBytes += entry.LeftOutBytes
	}
	if !f.dryRun {
		advance, done := terminal.Bytes(cmd.ErrOrStderr(), "exporting", result.SizeBytes)
		result.Files, err = airgap.Write(ctx, f.file, parcel.Layout, packing, advance)
		done()
		if err != nil {
			return fmt.Errorf("write %s: %w", f.file, err)
		}
	}
	return cli.Print(cmd.OutOrStdout(), f.format, result, result.draw)
}

func (f *exportFlags) options(ctx context.Context, runtimes []string) (export.Options, airgap.Packing, error) {
	var options export.Options
	packing := airgap.Packing{Zstd: f.zstd}
	if err := cli.RequireFlags(cli.Required{Flag: "--from", Given: f.from != ""},
		cli.Required{Flag: "-o", Given: f.file != "" || f.dryRun}); err != nil {
		return options, packing, err
	}
	for _, id := range runtimes {
		if err := trust.CheckRuntimeID(id); err != nil {
			return options, packing, cli.Usage(err)
		}
	}
	var err error
	if f.volumeSize != "" {
		if packing.VolumeBytes, err = airgap.ParseSize(f.volumeSize); err != nil {
			return options, packing, cli.Usage(fmt.Errorf("--volume-size: %w", err))
		}
	}
	options = export.Options{Runtimes: runtimes, Images: f.images, Offers: f.offers, Sign: !f.dryRun, Now: time.Now()}
	options.KubernetesVersion = f.Kubernetes
	if f.images {
		program, err := f.Program()
		if err != nil {
			return options, packing, cli.Usage(fmt.Errorf("--renderer: %w", err))
		}
		options.Rendering = flagset.NewRendering(program)
	}
	if options.Since, err = f.baseDigests(runtimes); err != nil {
		return options, packing, cli.Usage(fmt.Errorf("--since: %w", err))
	}
	if options.Platforms, err = parsePlatforms(f.platforms); err != nil {
		return options, packing, cli.Usage(fmt.Errorf("--platform: %w", err))
	}
	options.Place, options.Registries, err = f.registry.Open("--from", f.from,
		store.Access{RequestTimeout: cli.TransferTimeout})
	if err != nil {
		return options, packing, err
	}
	if options.Keys, err = f.keys.Load(ctx); err != nil {
		return options, packing, err
	}
	return options, packing, keyfolder.CheckKeys(ctx, options.Keys, options.Place)
}

func (f *exportFlags) baseDigests(runtimes []string) (map[string]digest.Digest, error) {
	found := map[string]digest.Digest{}
	for _, since := range f.since {
		if d := digest.Digest(since); d.Validate() == nil {
			if len(runtimes) != 1 || len(f.since) != 1 {
				return nil,
					fmt.Errorf("%s: a digest can only be used for a single runtime: pass the runtimes' report files instead", since)
			}
			found[runtimes[0]] = d
			continue
		}
		report, err := readReport(since)
		if err != nil {
			return nil, err
		}
		if report.Observed != nil { // nil if the runtime has not applied a bundle
			found[report.Runtime] = report.Observed.Digest
		}
	}
	for runtime := range found {
		if !strings.Contains(" "+strings.Join(runtimes, " ")+" ", " "+runtime+" ") {
			return nil, fmt.Errorf("the report is from runtime %s, which is not exported", runtime)
		}
	}
	return found, nil
}

func readReport(path string) (bundle.Report, error) {
	fetched, err := reports.ReadFile(path)
	if err != nil {
		return bundle.Report{}, err
	}
	report, err := bundle.ClaimedReport(fetched)
	if err != nil {
		return report, fmt.Errorf("%s: %w", path, err)
	}
	return report, nil
}

func parsePlatforms(names []string) ([]ocispec.Platform, error) {
	var found []ocispec.Platform
	for _, name := range names {
		parts := strings.Split(name, "/")
		if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
			return nil, fmt.Errorf("%q: must be OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, such as linux/amd64", name)
		}
		p := ocispec.Platform{OS: parts[0], Architecture: parts[1]}
		if len(parts) == 3 {
			p.Variant = parts[2]
		}
		found = append(found, p)
	}
	return found, nil
}

func (e exportResult) draw(out io.Writer) {
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"KIND", "NAME", "RUNTIMES", "BLOBS", "SIZE", "LEFT OUT"})
	for _, c := range e.Contents {
		t.AppendRow(table.Row{
			c.Kind, c.Name, strings.Join(c.Runtimes, ", "), c.Blobs,
			terminal.SizeText(c.SizeBytes), terminal.SizeText(c.LeftOutBytes),
		})
	}
	t.AppendFooter(table.Row{"", "", "", "", terminal.SizeText(e.SizeBytes), terminal.SizeText(e.LeftOutBytes)})
	t.Render()
	for _, file := range e.Files {
		fmt.Fprintln(out, file)
	}
	e.drawModules(out)
}

// drawModules prints each module's problem as one line, because an error from an untrusted chart can contain any text.
func (e exportResult) drawModules(out io.Writer) {
	var none, listed []string
	for _, m := range e.Modules {
		switch {
		case m.Rendered:
		case m.Problem != "":
			cli.Printf(out,
				"! %s cannot be rendered, so only its %d listed images are included, and some may be missing: %s; "+
					"the module is offered but not installed: omit all offers with "+
					"--offers=false, or set --renderer to another skr-agent program\n", m, m.Listed,
				bundle.PrintableLine(m.Problem))
		case m.Listed == 0:
			none = append(none, m.String())
		default:
			listed = append(listed, m.String())
		}
	}
	if len(none) > 0 {
		cli.Printf(out, "no images of %s are included: their components list no images, and they were not rendered; "+
			"remove --renderer none\n", strings.Join(none, ", "))
	}
	if len(listed) > 0 {
		cli.Printf(out, "only the listed images of %s are included, because the modules were not rendered; "+
			"remove --renderer none\n", strings.Join(listed, ", "))
	}
}
