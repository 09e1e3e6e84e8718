package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/table"
)

func TestTableCellIsOneLine(t *testing.T) {
	var out bytes.Buffer
	drawn := NewTable(&out)
	drawn.AppendHeader(table.Row{"MODULE", "LIST", "NUMBER", "MESSAGE"})
	drawn.AppendRow(table.Row{
		"scaler", []string{"one", "two\n"}, 7, "\x1b[2Jfine\nmailer  Ready  \u202eall is well\u009b\xff",
	})
	drawn.AppendFooter(table.Row{"", "", "", "12.3 KiB"})
	drawn.Render()
	if strings.Contains(out.String(), " \n") || !strings.HasSuffix(out.String(), "  12.3 KiB\n") {
		t.Errorf("want lines without trailing spaces, and an unchanged footer: %q", out.String())
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if len(lines) != 4 ||
		!strings.HasSuffix(strings.TrimSpace(lines[1]), `\x1b[2Jfine mailer  Ready  \u202eall is well\u009b\xff`) ||
		strings.TrimSpace(lines[2]) != "two" {
		t.Errorf("got lines %q", lines)
	}
}
