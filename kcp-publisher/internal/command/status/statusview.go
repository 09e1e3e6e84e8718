package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	age "k8s.io/apimachinery/pkg/util/duration"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/terminal"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

const (
	causesShown, namesShown = 5, 3
	// minText is the minimum width of wrapped text. minCell is the minimum width of the MESSAGE column.
	minText, minCell = 20, 8
)

type statusView struct {
	fleet.Fleet
	// selected contains the matching runtimes, worst health first.
	selected []fleet.Runtime
	filter   runtimeFilter
	width    int
	// isUntruncated is true if table rows must not be truncated.
	isUntruncated         bool
	palette               cli.Palette
	wide, all, everywhere bool
	where, selector       string
}

func (v statusView) draw(out io.Writer) {
	v.paragraph(out, "", v.verdict())
	if v.filter.isSet() {
		v.drawRuntimes(out)
		return
	}
	for _, w := range v.Warnings {
		v.cause(out, v.paint(cli.Yellow, "warning"), w)
	}
	groups := groupRuntimes(v.Runtimes)
	for i, g := range groups {
		if i == causesShown {
			cli.Printf(out, "\nand %d other causes: see MESSAGE below\n", len(groups)-causesShown)
			break
		}
		v.cause(out, g.title(v), g.cause)
	}
	v.drawActive(out)
	v.drawRuntimes(out)
}

func (v statusView) verdict() string {
	if v.Summary.Total == 0 && v.selector != "" {
		return "no runtimes in " + v.where + " match labels " + v.selector
	}
	if v.Summary.Total == 0 {
		other := ""
		if !v.everywhere && v.where != "namespace "+controlplane.DefaultNamespace {
			other = ", or search all namespaces with -A"
		}
		return "no runtimes in " + v.where + ": create a Kyma to add one" + other
	}
	total := terminal.Pluralize(v.Summary.Total, "runtime")
	need := "need"
	if v.Summary.Attention() == 1 || v.Summary.Total == 1 {
		need = "needs"
	}
	fleetwide := fmt.Sprintf("%d of %s %s attention", v.Summary.Attention(), total, need)
	switch {
	case v.Summary.Attention() > 0:
		fleetwide = v.paint(cli.Red, fleetwide)
	case len(v.Warnings) > 0:
		fleetwide = v.paint(cli.Yellow, fleetwide+", with "+terminal.Pluralize(len(v.Warnings), "warning"))
	default:
		fleetwide = v.paint(cli.Green, fleetwide)
	}
	if !v.filter.isSet() {
		return fleetwide + ": " + formatCounts(v.Summary.Health)
	}
	shown := map[fleet.Health]int{}
	for i := range v.selected {
		shown[v.selected[i].Health]++
	}
	share := fmt.Sprintf("%d of %s selected", len(v.selected), total)
	if len(shown) > 0 {
		share += ": " + formatCounts(shown)
	}
	return share + "; in the whole fleet, " + fleetwide
}

func formatCounts(by map[fleet.Health]int) string {
	var counts []string
	for _, health := range worstFirst {
		if n := by[health]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, healthWords[health]))
		}
	}
	return strings.Join(counts, ", ")
}

var healthWords = map[fleet.Health]string{
	fleet.Failing: "failing", fleet.Silent: "silent", fleet.NeverReported: "never reported", fleet.Behind: "behind",
	fleet.Deleting: "being deleted", fleet.Suspended: "suspended", fleet.Healthy: "healthy",
}

// group contains the runtimes that have the same health and the same most urgent problem.
type group struct {
	health fleet.Health
	names  []string
	cause  fleet.Cause
}

// groupRuntimes returns the groups with the worst health first. Larger groups come first if the health is equal.
func groupRuntimes(all []fleet.Runtime) []group {
	var groups []group
	at := map[fleet.Situation]int{}
	for i := range all {
		r := &all[i]
		if r.Cause == nil || !r.Health.NeedsAttention() {
			continue
		}
		n, known := at[r.Cause.Situation]
		if !known {
			n = len(groups)
			at[r.Cause.Situation] = n
			groups = append(groups, group{health: r.Health, cause: *r.Cause})
		}
		groups[n].names = append(groups[n].names, r.ID)
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Or(slices.Index(worstFirst, a.health)-slices.Index(worstFirst, b.health), len(b.names)-len(a.names))
	})
	return groups
}

func (g group) title(v statusView) string {
	names := g.names
	more := ""
	if len(names) > namesShown {
		names, more = names[:namesShown], fmt.Sprintf(" and %d more", len(g.names)-namesShown)
	}
	lines := make([]string, len(names))
	for i, name := range names {
		lines[i] = bundle.PrintableLine(name)
	}
	return fmt.Sprintf("%s (%s): %s%s",
		v.paint(terminal.HealthColor(g.health), fmt.Sprintf("%d %s", len(g.names), healthWords[g.health])), g.cause.Situation,
		strings.Join(lines, ", "), more)
}

func (v statusView) cause(out io.Writer, title string, c fleet.Cause) {
	fmt.Fprintln(out)
	v.paragraph(out, "", title)
	v.paragraph(out, "  ", bundle.PrintableLine(c.Message))
	if c.Advice != "" {
		v.paragraph(out, "  ", "fix: "+bundle.PrintableLine(c.Advice))
	}
}

func (v statusView) paragraph(out io.Writer, indent, words string) {
	for _, line := range v.wrapped(words, len(indent)) {
		fmt.Fprintln(out, indent+line)
	}
}

func (v statusView) wrapped(words string, indent int) []string {
	lines := strings.Split(text.WrapSoft(words, max(v.width-indent, minText)), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

func (v statusView) paint(color cli.Color, word string) string { return v.palette.Paint(color, word) }

func (v statusView) drawActive(out io.Writer) {
	t := terminal.NewTable(nil)
	t.AppendHeader(table.Row{"ROLLOUT", "FROM", "TO", "STATE", "WAVE", "UPDATED", "FAILED"})
	under := 0
	for _, r := range v.Rollouts {
		if !r.Active {
			continue
		}
		under++
		s := r.Status
		t.AppendRow(table.Row{
			r.Name, r.Spec.From, r.Spec.To,
			terminal.Painted(string(s.State), terminal.ColorOfRollout(s.State), v.palette), s.Wave,
			s.Progress, s.Failed,
		})
	}
	if under == 0 {
		return
	}
	fmt.Fprintln(out)
	v.render(out, t)
}

func (v statusView) drawRuntimes(out io.Writer) {
	listed, left := v.selected, 0
	if !v.all && !v.filter.isSet() && len(listed) > controlplane.SmallFleet {
		listed = slices.DeleteFunc(slices.Clone(listed), func(r fleet.Runtime) bool {
			return r.Health == fleet.Healthy
		})
		left = len(v.selected) - len(listed)
	}
	switch {
	case len(listed) > 0:
		fmt.Fprintln(out)
		v.table(out, listed)
	case v.filter.isSet():
		fmt.Fprintln(out, "\nno runtimes match the filter"+v.filter.otherVersions(v.Runtimes))
	}
	if left > 0 {
		cli.Printf(out, "\n%s not listed: use --all\n", terminal.Pluralize(left, "healthy runtime"))
	}
}

func (v statusView) table(out io.Writer, listed []fleet.Runtime) {
	header, rows := v.header(), make([]table.Row, len(listed))
	widths := make([]int, len(header))
	for i, name := range header {
		widths[i] = len(name.(string))
	}
	last := len(header) - 1
	for i := range listed {
		rows[i] = v.row(&listed[i])
		for column, cell := range rows[i][:last] {
			widths[column] = max(widths[column], text.StringWidth(plainCell(cell)))
		}
	}
	room := v.width
	for _, width := range widths[:last] {
		room -= width + 2
	}
	t := terminal.NewTable(nil)
	t.AppendHeader(header)
	for _, row := range rows {
		if !v.wide && !v.isUntruncated {
			row[last] = text.Snip(row[last].(string), max(room, minCell), "…")
		}
		t.AppendRow(row)
	}
	v.render(out, t)
}

func (v statusView) render(out io.Writer, t table.Writer) {
	t.SuppressTrailingSpaces()
	drawn := t.Render()
	if !v.wide && !v.isUntruncated && text.LongestLineLen(drawn) > v.width {
		t.Style().Size.WidthMax = v.width
		drawn = t.Render()
	}
	fmt.Fprintln(out, drawn)
}

func plainCell(cell any) string {
	if p, is := cell.(terminal.PaintedCell); is {
		return p.Word
	}
	return fmt.Sprint(cell)
}

func (v statusView) header() table.Row {
	header := table.Row{"RUNTIME", "HEALTH", "SINCE", "MODULES"}
	if v.filter.module != "" {
		header[3] = "VERSION"
	}
	if v.everywhere {
		header = append(table.Row{"NAMESPACE"}, header...)
	}
	if v.wide {
		header = append(header, "KYMA", "STATE", "CHANNEL", "REPORTS", "PUBLISHED", "IN FORCE", "AGENT", "KUBERNETES")
	}
	return append(header, "MESSAGE")
}

func (v statusView) row(r *fleet.Runtime) table.Row {
	row := table.Row{
		bundle.PrintableLine(r.ID),
		terminal.Painted(string(r.Health), terminal.HealthColor(r.Health), v.palette), v.since(r.Since),
		formatReady(r.Modules),
	}
	if v.filter.module != "" {
		row[3] = moduleVersion(r.Modules, v.filter.module)
	}
	if v.everywhere {
		row = append(table.Row{r.Namespace}, row...)
	}
	if v.wide {
		row = append(row, r.Kyma, string(r.State), r.Channel, v.reports(r), sequence(r.Published), sequence(r.InForce),
			r.Agent, r.Kubernetes)
	}
	message := ""
	if r.Cause != nil {
		message = bundle.PrintableLine(r.Cause.Message)
	}
	return append(row, message)
}

func (v statusView) since(at *time.Time) string {
	if at == nil {
		return ""
	}
	return age.HumanDuration(max(v.Time.Sub(*at), 0))
}

// reports returns the text in the column REPORTS. It omits the time if the runtime is reporting, because the publisher
// records unchanged reports only once a day.
func (v statusView) reports(r *fleet.Runtime) string {
	switch {
	case r.Reporting:
		return "yes"
	case r.LastReport == nil:
		return "never"
	}
	return v.since(r.LastReport) + " ago"
}

func sequence(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func formatReady(modules []fleet.RuntimeModule) string {
	ready := 0
	for _, m := range modules {
		if m.State == v1beta2.StateReady || m.State == v1beta2.StateUnmanaged {
			ready++
		}
	}
	return fmt.Sprintf("%d/%d", ready, len(modules))
}

func moduleVersion(modules []fleet.RuntimeModule, name string) string {
	for _, m := range modules {
		if m.Name == name {
			return m.Version
		}
	}
	return ""
}
