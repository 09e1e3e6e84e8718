package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"slices"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/jedib0t/go-pretty/v6/table"
	spdx "github.com/spdx/tools-golang/json"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	age "k8s.io/apimachinery/pkg/util/duration"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

const (
	formatCycloneDX = "cyclonedx"
	formatSPDX      = "spdx"
)

type imagesFlags struct {
	controlPlane
	from, trust, image, module, since, until, format, cache string

	rendering renderingFlags
	registry  cli.Registry
}

func newImages() *cobra.Command {
	f := &imagesFlags{}
	cmd := &cobra.Command{
		Use: "images", Short: "show the images that run in each runtime", Args: cli.Exactly(0, "no arguments"),
		Long: "images joins the module versions that the runtimes report with the images of each version. It finds " +
			"the images in signed\n" +
			"bundles: images that the module lists, and images that its rendered objects use. Each version is read " +
			"and rendered once.\n\n" +
			"With --since, it compares the published bundles at two times: rows with + and - list the runtimes " +
			"whose bundle gained or\n" +
			"lost an image. It follows the signed chain of each runtime's bundles, as far back as the " +
			"registry keeps them.",
		Example: "  kcp-publisher images --from registry.example/fleet --trust root.json --image kyma/keda\n" +
			"  kcp-publisher images --from registry.example/fleet --trust root.json --since 2026-11-01",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.add(flags, "the Kymas")
	f.addEverywhere(flags)
	flags.StringVar(&f.from, "from", "", "source of the bundles: registry prefix HOST/PATH, or oci-layout:DIR")
	flags.StringVar(&f.trust, "trust", "",
		"file with the root of trust to verify the bundles: root.json from kcp-publisher keys init")
	flags.StringVar(&f.image, "image", "",
		"show only this image: a reference, a digest, or a name with or without its registry")
	flags.StringVar(&f.module, "module", "", "show only images of this module")
	flags.StringVar(&f.since, "since", "",
		"compare with the bundles at this time: RFC 3339, or a date such as 2026-11-01 (midnight UTC)")
	flags.StringVar(&f.until, "until", "", "end of the period that --since starts; default: now")
	f.rendering.add(flags, "")
	flags.StringVar(&f.cache, "cache", userCache,
		"folder for the images of rendered modules, or user for a folder in the user's cache; none renders each "+
			"module again")
	cli.OutputFlag(flags, &f.format, formatCycloneDX, formatSPDX)
	f.registry.AddFlags(flags)
	return cmd
}

func (f *imagesFlags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if err := cli.RequireFlags(cli.Required{Flag: "--from", Given: f.from != ""},
		cli.Required{Flag: "--trust", Given: f.trust != ""}); err != nil {
		return err
	}
	asked, err := f.period(time.Now().UTC())
	if err != nil {
		return err
	}
	options, err := f.options(ctx)
	if err != nil {
		return err
	}
	if note := unconfinedWarning(goruntime.GOOS); options.Rendering != nil && note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	api, err := f.connect()
	if err != nil {
		return err
	}
	of := scope{namespace: f.scope(), selector: labels.Everything()}
	if asked != nil {
		kymas, err := readKymas(ctx, api, of)
		if err != nil {
			return err
		}
		return f.compare(ctx, cmd.OutOrStdout(), options, kymas, *asked)
	}
	table, err := f.tables()
	if err != nil {
		return err
	}
	runtimes, err := readReported(ctx, api, table, of, time.Now())
	if err != nil {
		return err
	}
	found, err := f.inventory(ctx, options, runtimes)
	if err != nil {
		return err
	}
	return f.print(cmd.OutOrStdout(), found, cmp.Or(options.Keys.Root.Fleet, "fleet"), time.Now())
}

func (f *imagesFlags) print(out io.Writer, found inventory.Fleet, fleet string, now time.Time) error {
	switch f.format {
	case formatCycloneDX:
		return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(found.CycloneDX(fleet, now))
	case formatSPDX:
		return spdx.Write(found.SPDX(fleet, now), out, spdx.Indent("  "))
	}
	return cli.Print(out, f.format, found, func(out io.Writer) { drawImages(out, found, now) })
}

func (f *imagesFlags) options(ctx context.Context) (export.Options, error) {
	program, err := f.rendering.program()
	if err != nil {
		return export.Options{}, cli.Usage(fmt.Errorf("--renderer: %w", err))
	}
	options, err := bundleSource(ctx, &f.registry, "--from", f.from, f.trust)
	options.Rendering, options.KubernetesVersion = newRendering(program), f.rendering.kubernetes
	options.UsedCache = usedCache(program, cacheDir(f.cache))
	options.UsedCache.Prune(time.Now())
	return options, err
}

// bundleSource returns a source that reads bundles from the registry at location and verifies them with a root of
// trust. flag is the name of the flag with the location.
func bundleSource(
	ctx context.Context, registry *cli.Registry, flag, location, root string,
) (options export.Options, err error) {
	options.Place, options.Registries, err = registry.Open(flag, location,
		store.Access{RequestTimeout: cli.TransferTimeout})
	if err != nil {
		return options, err
	}
	pinned, err := cli.ReadRoot(root)
	if err != nil {
		return options, err
	}
	newest, refusal, _, err := store.FollowRoot(ctx, options.Place, pinned)
	if refusal != nil {
		err = errors.Join(err, fmt.Errorf("root of trust version %d: %w", newest.Version+1, refusal))
	}
	options.Keys = publish.Keys{Root: newest, FormerRoots: []trust.Root{pinned}}
	return options, err
}

// maxRuntimesNamed is the maximum number of runtimes that a row lists by name.
const maxRuntimesNamed = 3

func drawImages(out io.Writer, found inventory.Fleet, now time.Time) {
	if len(found.Images) == 0 {
		fmt.Fprintln(out, "no matching images in the modules that runtimes report")
	} else {
		t := newTable(out)
		t.AppendHeader(table.Row{"IMAGE", "MODULE", "VERSION", "RUNTIMES", "OLDEST REPORT"})
		for _, image := range found.Images {
			for _, use := range image.Uses {
				var ids []string
				for _, h := range use.Runtimes[:min(len(use.Runtimes), maxRuntimesNamed)] {
					ids = append(ids, h.Runtime)
				}
				one := inventory.Image{Uses: []inventory.Use{use}}
				t.AppendRow(table.Row{
					image.Reference, use.Name, use.Version,
					fmt.Sprintf("%d: %s", len(use.Runtimes), shortenList(ids, len(use.Runtimes))),
					age.HumanDuration(now.Sub(one.Oldest())) + " ago",
				})
			}
		}
		t.Render()
	}
	for _, u := range found.Unknown {
		cli.Printf(out, "\nincomplete: module %s %s in %s: %s\n", u.Name, u.Version, pluralize(u.Runtimes, "runtime"),
			u.Problem)
	}
	if found.Unreported > 0 {
		cli.Printf(out, "\nnot counted: %s that never reported\n", pluralize(found.Unreported, "runtime"))
	}
}

func shortenList(ids []string, total int) string {
	text := ""
	for i, id := range slices.Sorted(slices.Values(ids)) {
		if i > 0 {
			text += ", "
		}
		text += id
	}
	if total > len(ids) {
		text += ", …"
	}
	return text
}
