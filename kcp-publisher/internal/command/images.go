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
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	age "k8s.io/apimachinery/pkg/util/duration"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/publish"
)

// formatCycloneDX is the format of -o for a bill of materials.
const formatCycloneDX = "cyclonedx"

// imagesFlags are the flags of `images`.
type imagesFlags struct {
	controlPlane
	from, trust, image, module, format string
	rendering                          renderingFlags
	registry                           cli.Registry
}

func newImages() *cobra.Command {
	f := &imagesFlags{}
	cmd := &cobra.Command{
		Use: "images", Short: "shows which image runs in which runtimes", Args: cli.Exactly(0, "no arguments"),
		Long: "images joins the module versions that the runtimes report with the images of each version. It finds these in signed\n" +
			"bundles: images that the module lists, and images that its rendered objects use. Each version is read and rendered once.",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.add(flags, "the Kymas")
	f.addEverywhere(flags)
	flags.StringVar(&f.from, "from", "", "source of the bundles: registry prefix HOST/PATH, or oci-layout:DIR")
	flags.StringVar(
		&f.trust,
		"trust",
		"",
		"root of trust that the bundles are verified with, as kcp-publisher keys init wrote it",
	)
	flags.StringVar(
		&f.image,
		"image",
		"",
		"show this image only: a reference, a digest, or a name with or without its registry",
	)
	flags.StringVar(&f.module, "module", "", "show images of this module only")
	f.rendering.add(flags, "")
	cli.OutputFlag(flags, &f.format, formatCycloneDX)
	f.registry.AddFlags(flags)
	return cmd
}

func (f *imagesFlags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if err := cli.RequireFlags(cli.Required{Flag: "--from", Given: f.from != ""}, cli.Required{Flag: "--trust", Given: f.trust != ""}); err != nil {
		return err
	}
	options, err := f.options(ctx)
	if err != nil {
		return err
	}
	if note := unconfined(goruntime.GOOS); options.Rendering != nil && note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	api, err := f.connect()
	if err != nil {
		return err
	}
	kymas, _, err := readDivided(ctx, api, scope{namespace: f.scope(), selector: labels.Everything()}, divided{})
	if err != nil {
		return err
	}
	runtimes := reported(kymas)
	contents, err := export.Contents(ctx, options, runtimes)
	if err != nil {
		return err
	}
	now := time.Now()
	found := inventory.New(runtimes, contents).Select(f.image, f.module)
	if f.format == formatCycloneDX {
		encoder := cyclonedx.NewBOMEncoder(cmd.OutOrStdout(), cyclonedx.BOMFileFormatJSON).SetPretty(true)
		return encoder.Encode(found.Bill(cmp.Or(options.Keys.Root.Fleet, "fleet"), now))
	}
	return cli.Print(cmd.OutOrStdout(), f.format, found, func(out io.Writer) { drawImages(out, found, now) })
}

func (f *imagesFlags) options(ctx context.Context) (options export.Options, err error) {
	if options.Rendering, err = f.rendering.rendering(); err != nil {
		return options, cli.Usage(fmt.Errorf("--renderer: %w", err))
	}
	options.KubernetesVersion = f.rendering.kubernetes
	options.Place, options.Registries, err = f.registry.Open(
		"--from",
		f.from,
		store.Access{RequestTimeout: cli.TransferTimeout},
	)
	if err != nil {
		return options, err
	}
	pinned, err := cli.ReadRoot(f.trust)
	if err != nil {
		return options, err
	}
	newest, refusal, _, err := store.FollowRoot(ctx, options.Place, pinned)
	if refusal != nil {
		err = errors.Join(err, fmt.Errorf("root of trust version %d: %w", newest.Version+1, refusal))
	}
	options.Keys = publish.Keys{Root: newest, Former: []trust.Root{pinned}}
	return options, err
}

// reported returns the runtimes with the module versions of their last reports.
func reported(kymas []v1beta2.Kyma) []inventory.Runtime {
	all := make([]inventory.Runtime, 0, len(kymas))
	for i := range kymas {
		kyma := &kymas[i]
		r := inventory.Runtime{ID: plan.RuntimeID(kyma)}
		if status := kyma.Status.Runtime; status != nil && status.Observed != nil {
			r.Reported, r.Bundle = status.Observed.Time.Time, status.Observed.Digest
			for _, m := range kyma.Status.Modules {
				if m.Version != "" {
					r.Modules = append(r.Modules, inventory.Module{Name: m.Name, Version: m.Version})
				}
			}
		}
		all = append(all, r)
	}
	return all
}

// maxRuntimesNamed bounds the runtimes that a row of the table names.
const maxRuntimesNamed = 3

func drawImages(out io.Writer, found inventory.Fleet, now time.Time) {
	if len(found.Images) == 0 {
		fmt.Fprintln(out, "no runtime reports a module with such an image")
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
					image.Reference, use.Name, use.Version, fmt.Sprintf("%d: %s", len(use.Runtimes), shortened(ids, len(use.Runtimes))),
					age.HumanDuration(now.Sub(one.Oldest())) + " ago",
				})
			}
		}
		t.Render()
	}
	for _, u := range found.Unknown {
		fmt.Fprintf(
			out,
			"\nincomplete: module %s %s in %s: %s\n",
			u.Name,
			u.Version,
			several(u.Runtimes, "runtime"),
			u.Problem,
		)
	}
	if found.Unreported > 0 {
		fmt.Fprintf(out, "\nnot counted: %s that never reported\n", several(found.Unreported, "runtime"))
	}
}

func shortened(ids []string, total int) string {
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
