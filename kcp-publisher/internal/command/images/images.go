// Package images implements the command that lists the images of a fleet and their changes.
package images

import (
	"cmp"
	"context"
	"fmt"
	"io"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/jedib0t/go-pretty/v6/table"
	spdx "github.com/spdx/tools-golang/json"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	age "k8s.io/apimachinery/pkg/util/duration"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/flagset"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/published"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
)

const (
	formatCycloneDX = "cyclonedx"
	formatSPDX      = "spdx"
)

type imagesFlags struct {
	controlplane.Flags
	from, trust, image, module, since, until, format, cache string

	rendering flagset.RenderingFlags
	registry  cli.Registry
}

// New returns the command images.
func New() *cobra.Command {
	f := &imagesFlags{}
	cmd := &cobra.Command{
		Use: "images", Short: "list the module images in each runtime", Args: cli.Exactly(0, "no arguments"),
		Long: "images joins the module versions that the runtimes report with the images of each version. It finds " +
			"the images in signed\n" +
			"bundles: images that the module lists, and images that its rendered objects use. Each version is read " +
			"and rendered once\nfor each Kubernetes version of the runtimes.\n\n" +
			"With --since, it compares the published bundles at two times: rows with + and - list the runtimes " +
			"whose bundle gained or\n" +
			"lost an image. It follows the signed chain of each runtime's bundles, as far back as the " +
			"registry keeps them.",
		Example: "  kcp-publisher images --from registry.example/fleet --trust root.json --image kyma/keda\n" +
			"  kcp-publisher images --from registry.example/fleet --trust root.json --since 2026-11-01",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.Add(flags, "the Kymas")
	f.AddEverywhere(flags)
	flags.StringVar(&f.from, "from", "", "source for the bundles: registry prefix HOST/PATH, or oci-layout:DIR")
	flags.StringVar(&f.trust, "trust", "",
		"file with the root of trust to verify the bundles: root.json from kcp-publisher keys init")
	flags.StringVar(&f.image, "image", "",
		"show only this image: a reference, a digest, or a name with or without its registry")
	flags.StringVar(&f.module, "module", "", "show only images from this module")
	flags.StringVar(&f.since, "since", "",
		"compare with the bundles at this time: RFC 3339, or a date such as 2026-11-01 (midnight UTC)")
	flags.StringVar(&f.until, "until", "", "end of the period that --since starts; default: now")
	f.rendering.Add(flags, "")
	flags.StringVar(&f.cache, "cache", flagset.UserCache,
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
	if note := flagset.UnconfinedWarning(goruntime.GOOS); options.Rendering != nil && note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	api, err := f.Connect()
	if err != nil {
		return err
	}
	of := controlplane.KymaSelector{Namespace: f.Scope(), Selector: labels.Everything()}
	if asked != nil {
		kymas, err := controlplane.ReadKymas(ctx, api, of)
		if err != nil {
			return err
		}
		return f.compare(ctx, cmd.OutOrStdout(), options, kymas, *asked)
	}
	table, err := f.Tables()
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
	program, err := f.rendering.Program()
	if err != nil {
		return export.Options{}, cli.Usage(fmt.Errorf("--renderer: %w", err))
	}
	options, err := published.BundleSource(ctx, &f.registry, "--from", f.from, f.trust)
	options.Rendering, options.KubernetesVersion = flagset.NewRendering(program), f.rendering.Kubernetes
	options.UsedCache = flagset.UsedCache(program, flagset.CacheDir(f.cache))
	options.UsedCache.Prune(time.Now())
	return options, err
}

const maxRuntimesNamed = 3

func drawImages(out io.Writer, found inventory.Fleet, now time.Time) {
	if len(found.Images) == 0 {
		fmt.Fprintln(out, "no matching images in the modules that runtimes report")
	} else {
		t := terminal.NewTable(out)
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
		cli.Printf(out, "\nincomplete: module %s %s in %s: %s\n", u.Name, u.Version,
			terminal.Pluralize(u.Runtimes, "runtime"),
			u.Problem)
	}
	if found.Unreported > 0 {
		cli.Printf(out, "\nnot counted: %s that never reported\n", terminal.Pluralize(found.Unreported, "runtime"))
	}
}

// shortenList returns the IDs as a sorted, comma-separated list. If total, the number of all runtimes, exceeds the
// number of IDs, the list ends with "…".
func shortenList(ids []string, total int) string {
	text := strings.Join(slices.Sorted(slices.Values(ids)), ", ")
	if total > len(ids) {
		text += ", …"
	}
	return text
}
