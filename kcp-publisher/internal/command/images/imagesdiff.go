package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/inventory"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/export"
)

type timePeriod struct{ since, until time.Time }

func (f *imagesFlags) period(now time.Time) (*timePeriod, error) {
	if f.since == "" {
		if f.until != "" {
			return nil, cli.Usage(errors.New("--until requires --since"))
		}
		return nil, nil
	}
	if f.format == formatCycloneDX || f.format == formatSPDX {
		return nil, cli.Usage(fmt.Errorf("--since does not support -o %s: use table, json or yaml", f.format))
	}
	p := timePeriod{until: now}
	var err error
	if p.since, err = pointInTime("--since", f.since); err != nil {
		return nil, err
	}
	if f.until != "" {
		if p.until, err = pointInTime("--until", f.until); err != nil {
			return nil, err
		}
	}
	if !p.since.Before(p.until) {
		return nil, cli.Usage(fmt.Errorf("--since %s must be before the end of the period, %s",
			p.since.Format(time.RFC3339), p.until.Format(time.RFC3339)))
	}
	return &p, nil
}

func pointInTime(flag, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{},
		cli.Usage(fmt.Errorf("%s %q: must be a time such as 2026-11-01 or 2026-11-01T08:00:00Z", flag, text))
}

func (f *imagesFlags) compare(
	ctx context.Context, out io.Writer, options export.Options, kymas []v1beta2.Kyma, p timePeriod,
) error {
	at, unread, err := export.AssignedRuntimes(ctx, options, inventory.PublishedRuntimes(kymas), p.since, p.until)
	if err != nil {
		return err
	}
	before, err := f.inventory(ctx, options, at[0])
	if err != nil {
		return err
	}
	after, err := f.inventory(ctx, options, at[1])
	if err != nil {
		return err
	}
	difference := inventory.Difference{
		Since: p.since, Until: p.until, Changes: inventory.Compare(before, after),
		Unknown: inventory.MergeUnknown(before, after), Unread: unread,
	}
	known := make([]string, len(kymas))
	for i := range kymas {
		known[i] = plan.RuntimeID(&kymas[i])
	}
	if difference.WithoutKyma, err = export.RuntimesWithoutKyma(ctx, options, known); err != nil {
		difference.WithoutKymaProblem = err.Error()
	}
	return cli.Print(out, f.format, difference, func(out io.Writer) { drawDifference(out, difference) })
}

func (f *imagesFlags) inventory(
	ctx context.Context, options export.Options, runtimes []inventory.Runtime,
) (inventory.Fleet, error) {
	contents, err := export.Contents(ctx, options, runtimes)
	if err != nil {
		return inventory.Fleet{}, err
	}
	return inventory.New(runtimes, contents).Select(f.image, f.module), nil
}

func drawDifference(out io.Writer, d inventory.Difference) {
	cli.Printf(out, "images in published bundles from %s to %s\n\n", d.Since.Format(time.RFC3339),
		d.Until.Format(time.RFC3339))
	t := terminal.NewTable(out)
	t.AppendHeader(table.Row{"", "IMAGE", "MODULE", "VERSION", "RUNTIMES"})
	for _, c := range d.Changes {
		for _, side := range []struct {
			sign string
			ids  []string
		}{{"-", c.Removed}, {"+", c.Added}} {
			if n := len(side.ids); n > 0 {
				first := side.ids[:min(n, maxRuntimesNamed)]
				t.AppendRow(table.Row{
					side.sign, c.Reference, c.Name, c.Version, fmt.Sprintf("%d: %s", n, shortenList(first, n)),
				})
			}
		}
	}
	if t.Length() == 0 {
		fmt.Fprintln(out, "no image changes found")
	} else {
		t.Render()
	}
	for _, u := range d.Unknown {
		cli.Printf(out, "\nincomplete: module %s %s in %s: %s\n", u.Name, u.Version,
			terminal.Pluralize(u.Runtimes, "runtime"),
			u.Problem)
	}
	for _, u := range d.Unread[:min(len(d.Unread), maxRuntimesNamed)] {
		cli.Printf(out, "\nincomplete: runtime %s: %s\n", u.Runtime, u.Problem)
	}
	if more := len(d.Unread) - maxRuntimesNamed; more > 0 {
		cli.Printf(out, "\nincomplete: %s\n", terminal.Pluralize(more, "more runtime"))
	}
	switch n := len(d.WithoutKyma); {
	case d.WithoutKymaProblem != "":
		cli.Printf(out, "\nnot compared: runtimes whose Kyma was deleted, because they are unknown: %s\n",
			d.WithoutKymaProblem)
	case n > 0:
		cli.Printf(out, "\nnot compared: %s without a Kyma: %s\n", terminal.Pluralize(n, "runtime"),
			shortenList(d.WithoutKyma[:min(n, maxRuntimesNamed)], n))
	}
}
