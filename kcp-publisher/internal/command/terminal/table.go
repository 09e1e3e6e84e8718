// Package terminal prints tables, colors and texts for commands, and asks for confirmation.
package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

type lineTable struct{ table.Writer }

func (t lineTable) AppendRow(row table.Row, config ...table.RowConfig) {
	cells := make(table.Row, len(row))
	for i, cell := range row {
		cells[i] = printableCell(cell)
	}
	t.Writer.AppendRow(cells, config...)
}

// printableCell returns a cell without control characters. Numbers stay numbers, because the table right-aligns them.
func printableCell(cell any) any {
	switch c := cell.(type) {
	case int, int32, int64, nil:
		return cell
	case PaintedCell:
		return c.by.Paint(c.color, bundle.PrintableLine(c.Word))
	case []string:
		lines := make([]string, len(c))
		for i, line := range c {
			lines[i] = bundle.PrintableLine(line)
		}
		return strings.Join(lines, "\n")
	}
	return bundle.PrintableLine(fmt.Sprint(cell))
}

// PaintedCell is a table cell with a color.
type PaintedCell struct {
	Word  string
	color cli.Color
	by    cli.Palette
}

// Painted returns a cell with a colored word.
func Painted(word string, color cli.Color, by cli.Palette) PaintedCell {
	return PaintedCell{word, color, by}
}

func (t lineTable) AppendRows(rows []table.Row, config ...table.RowConfig) {
	for _, row := range rows {
		t.AppendRow(row, config...)
	}
}

// NewTable returns a table whose cells are single lines without control characters.
func NewTable(out io.Writer) table.Writer {
	t := lineTable{table.NewWriter()}
	t.SetOutputMirror(out)
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Format.Footer = text.FormatDefault // do not change the case of units
	t.SuppressTrailingSpaces()
	t.Style().Box.PaddingLeft = ""
	t.Style().Box.PaddingRight = "  "
	return t
}

// ShortDigest returns the start of a digest.
func ShortDigest(d string) string {
	if len(d) > 19 {
		return d[:19]
	}
	return d
}

// SizeText returns a size with a unit.
func SizeText(n int64) string {
	switch {
	case n == 0:
		return ""
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
