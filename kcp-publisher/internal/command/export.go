package command

import (
	"context"
	"fmt"
	"io"
	"os"
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
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
)

// exportFlags are what `export` takes.
type exportFlags struct {
	from, file, volumeSize, format string
	renderingFlags
	since, platforms             []string
	images, offers, zstd, dryRun bool
	keys                         keys.Folder
	registry                     cli.Registry
}

func newExport() *cobra.Command {
	f := &exportFlags{}
	cmd := &cobra.Command{
		Use: "export RUNTIME... -o FILE", Short: "writes a file for runtimes without a network connection",
		Long: "export writes the newest bundles of the runtimes with all that they need into one OCI layout as a tar, for `skr-agent import`.\n" +
			"An interrupted export leaves FILE.partial, and the same command continues it.",
		Args: cli.AtLeastOne("runtime id"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "where bundles are published: registry prefix HOST/PATH, or oci-layout:DIR")
	flags.StringVarP(&f.file, "output", "o", "", "file to write; what is printed has its form by --format, which is -o of other commands")
	flags.StringArrayVar(&f.since, "since", nil, "leave out what the runtime has: its report as a file, or, for one runtime, the digest of the bundle that it has applied; may be repeated")
	flags.BoolVar(&f.images, "images", false, "include the container images of the modules: those that the desired state lists and those that their objects use")
	f.renderingFlags.add(flags, "with --images: ")
	flags.BoolVar(&f.offers, "offers", true, "include what runtimes with autonomy may choose by themselves")
	flags.StringSliceVar(&f.platforms, "platform", nil, "platforms of images, such as linux/amd64; default: all. Images that are named by digest always include all")
	flags.BoolVar(&f.zstd, "zstd", false, "compress the file")
	flags.StringVar(&f.volumeSize, "volume-size", "", "split the file into FILE.001, FILE.002, ... of at most this size, such as 4G")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what the file would contain, and write none")
	flags.StringVar(&f.format, "format", "table", "table, json or yaml")
	publisherKeyFlags(flags, &f.keys)
	f.registry.AddFlags(flags)
	return cmd
}

// exported is what `export` prints.
type exported struct {
	Files        []string       `json:"files"`
	SizeBytes    int64          `json:"sizeBytes"`
	LeftOutBytes int64          `json:"leftOutBytes"`
	Contents     []export.Entry `json:"contents"`
	// Unlisted are the modules whose components list no images, where images were asked for and nothing rendered the
	// modules.
	Unlisted []string `json:"unlistedImages,omitempty"`
	// Modules say how the images of each module were found, where images were asked for.
	Modules []export.ModuleImages `json:"modules,omitempty"`
}

func (f *exportFlags) run(cmd *cobra.Command, runtimes []string) error {
	ctx := cmd.Context()
	options, packing, err := f.options(ctx, runtimes)
	if err != nil {
		return err
	}
	if note := unconfined(goruntime.GOOS); options.Rendering != nil && note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	parcel, err := export.Gather(ctx, options)
	if err != nil {
		return err
	}
	told := exported{Files: []string{}, SizeBytes: parcel.Layout.SizeBytes(), Contents: parcel.Contents, Unlisted: parcel.Unlisted, Modules: parcel.Modules}
	for _, entry := range parcel.Contents {
		told.LeftOutBytes += entry.LeftOutBytes
	}
	if !f.dryRun {
		advance, done := cli.Bytes(cmd.ErrOrStderr(), "exporting", told.SizeBytes)
		told.Files, err = airgap.Write(ctx, f.file, parcel.Layout, packing, advance)
		done()
		if err != nil {
			return fmt.Errorf("write %s: %w", f.file, err)
		}
	}
	return cli.Print(cmd.OutOrStdout(), f.format, told, told.draw)
}

func (f *exportFlags) options(ctx context.Context, runtimes []string) (export.Options, airgap.Packing, error) {
	var options export.Options
	packing := airgap.Packing{Zstd: f.zstd}
	if err := cli.RequireFlags(cli.Required{Flag: "--from", Given: f.from != ""}, cli.Required{Flag: "-o", Given: f.file != "" || f.dryRun}); err != nil {
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
	options.KubernetesVersion = f.kubernetes
	if f.images {
		if options.Rendering, err = f.rendering(); err != nil {
			return options, packing, cli.Usage(fmt.Errorf("--renderer: %w", err))
		}
	}
	if options.Since, err = f.bases(runtimes); err != nil {
		return options, packing, cli.Usage(fmt.Errorf("--since: %w", err))
	}
	if options.Platforms, err = platforms(f.platforms); err != nil {
		return options, packing, cli.Usage(fmt.Errorf("--platform: %w", err))
	}
	options.Place, options.Registries, err = f.registry.Open("--from", f.from, store.Access{RequestTimeout: cli.TransferTimeout})
	if err != nil {
		return options, packing, err
	}
	if options.Keys, err = f.keys.Load(ctx); err != nil {
		return options, packing, err
	}
	return options, packing, checkKeys(ctx, options.Keys, options.Place)
}

// unconfined says what a system does not keep the charts from that are rendered on it, empty for nothing.
func unconfined(system string) string {
	if system == "linux" {
		return ""
	}
	return "modules are rendered without a limit of memory: only Linux confines skr-agent's renderer; export on Linux, or with --renderer=none, what you do not trust"
}

// bases reads what runtimes have already, by runtime.
func (f *exportFlags) bases(runtimes []string) (map[string]digest.Digest, error) {
	found := map[string]digest.Digest{}
	for _, since := range f.since {
		if d := digest.Digest(since); d.Validate() == nil {
			if len(runtimes) != 1 || len(f.since) != 1 {
				return nil, fmt.Errorf("%s: a digest is for one runtime; give the runtimes' reports", since)
			}
			found[runtimes[0]] = d
			continue
		}
		report, err := readReport(since)
		if err != nil {
			return nil, err
		}
		if report.Observed != nil { // otherwise the runtime has nothing
			found[report.Runtime] = report.Observed.Digest
		}
	}
	for runtime := range found {
		if !strings.Contains(" "+strings.Join(runtimes, " ")+" ", " "+runtime+" ") {
			return nil, fmt.Errorf("the report is of runtime %s, which is not exported", runtime)
		}
	}
	return found, nil
}

// readReport reads what a report in a file claims.
func readReport(path string) (bundle.Report, error) {
	fetched, err := reportFile(path)
	if err != nil {
		return bundle.Report{}, err
	}
	report, err := bundle.ClaimedReport(fetched)
	if err != nil {
		return report, fmt.Errorf("%s: %w", path, err)
	}
	return report, nil
}

func reportFile(path string) (bundle.Fetched, error) {
	file, err := os.Open(path)
	if err != nil {
		return bundle.Fetched{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, bundle.MaxManifestBytes+1))
	if err != nil {
		return bundle.Fetched{}, err
	}
	fetched, err := bundle.ReadReportFile(data)
	if err != nil {
		return fetched, fmt.Errorf("%s: %w", path, err)
	}
	return fetched, nil
}

func platforms(names []string) ([]ocispec.Platform, error) {
	var found []ocispec.Platform
	for _, name := range names {
		parts := strings.Split(name, "/")
		if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
			return nil, fmt.Errorf("%q: want OS/ARCHITECTURE or OS/ARCHITECTURE/VARIANT, such as linux/amd64", name)
		}
		p := ocispec.Platform{OS: parts[0], Architecture: parts[1]}
		if len(parts) == 3 {
			p.Variant = parts[2]
		}
		found = append(found, p)
	}
	return found, nil
}

func (e exported) draw(out io.Writer) {
	t := newTable(out)
	t.AppendHeader(table.Row{"KIND", "NAME", "RUNTIMES", "BLOBS", "SIZE", "LEFT OUT"})
	for _, c := range e.Contents {
		t.AppendRow(table.Row{c.Kind, c.Name, strings.Join(c.Runtimes, ", "), c.Blobs, sizeText(c.SizeBytes), sizeText(c.LeftOutBytes)})
	}
	t.AppendFooter(table.Row{"", "", "", "", sizeText(e.SizeBytes), sizeText(e.LeftOutBytes)})
	t.Render()
	for _, file := range e.Files {
		fmt.Fprintln(out, file)
	}
	e.drawModules(out)
}

// drawModules says of which modules not all images are known. Problems are what the charts say, which anybody may have
// written.
func (e exported) drawModules(out io.Writer) {
	var none, listed []string
	for _, m := range e.Modules {
		switch {
		case m.Rendered:
		case m.Problem != "":
			fmt.Fprintf(out, "! which images %s uses is not known, and only those that it lists, %d, are in it: it cannot be rendered: %s; it is offered and not installed: leave out all such with "+
				"--offers=false, or name another skr-agent with --renderer\n", m, m.Listed, bundle.PrintableLine(m.Problem))
		case m.Listed == 0:
			none = append(none, m.String())
		default:
			listed = append(listed, m.String())
		}
	}
	if len(none) > 0 {
		fmt.Fprintf(out, "no images of %s are in it: their components list none, and nothing rendered them to see which they use; "+
			"name an skr-agent program with --renderer\n", strings.Join(none, ", "))
	}
	if len(listed) > 0 {
		fmt.Fprintf(out, "of the images of %s only those are in it that their components list: nothing rendered them to see which others they use; "+
			"name an skr-agent program with --renderer\n", strings.Join(listed, ", "))
	}
}
