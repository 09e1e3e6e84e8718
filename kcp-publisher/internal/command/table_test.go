package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/table"
)

func TestACellIsALine(t *testing.T) {
	var out bytes.Buffer
	drawn := newTable(&out)
	drawn.AppendHeader(table.Row{"MODULE", "LIST", "NUMBER", "MESSAGE"})
	drawn.AppendRow(table.Row{"scaler", []string{"one", "two\n"}, 7, "\x1b[2Jfine\nmailer  Ready  \u202eall is well\u009b\xff"})
	drawn.Render()
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	if len(lines) != 3 || !strings.HasSuffix(strings.TrimSpace(lines[1]), `\x1b[2Jfine mailer  Ready  \u202eall is well\u009b\xff`) || strings.TrimSpace(lines[2]) != "two" {
		t.Errorf("got %q", lines)
	}
}
