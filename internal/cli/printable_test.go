package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// hostile is text with control sequences, which a registry, chart or runtime could send.
const hostile = "\x1b]0;owned\a\x1b[2J\u009b2J\u202egpj.exe\x7f\r \U000e0041 fine\nkcp-publisher: all is well"

func clean(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
			t.Errorf("%s: output contains the control character %U: %q", what, r, text)
			return
		}
	}
}

func TestTerminalControlSequencesAreEscaped(t *testing.T) {
	data := map[string]any{"message": hostile, hostile: "key", "list": []string{hostile, "plain"}}
	for _, format := range []string{"table", "json", "yaml"} {
		root, _ := NewRoot("program", "is tested", "v0")
		root.AddCommand(&cobra.Command{Use: "show", RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.ErrOrStderr(), "note:", hostile)
			if err := Print(cmd.OutOrStdout(), format, data,
				func(out io.Writer) { fmt.Fprintln(out, hostile) }); err != nil {
				return err
			}
			return errors.New("denied: " + hostile)
		}})
		var out, errOut bytes.Buffer
		if code := Execute(root, nil, []string{"show"}, &out, &errOut); code != ExitFailed {
			t.Errorf("%s: got exit code %d, want %d", format, code, ExitFailed)
		}
		clean(t, format, out.String())
		clean(t, "errors", errOut.String())
		if !strings.Contains(errOut.String(), `program: denied: \x1b]0;owned\x07`) {
			t.Errorf("got error output %q, want the escaped error", errOut.String())
		}
		var read map[string]any
		var err error
		switch format {
		case "json":
			err = json.Unmarshal(out.Bytes(), &read)
		case "yaml":
			err = yaml.Unmarshal(out.Bytes(), &read)
		default:
			continue
		}
		if err != nil || read["message"] != hostile || read[hostile] != "key" ||
			!strings.HasPrefix(fmt.Sprint(read["list"]), "["+hostile) {
			t.Errorf("%s: decoding the output returned error %v and different data %q from %s", format, err,
				maps.Collect(maps.All(read)), out.String())
		}
	}
}

func TestCharactersSplitAcrossWritesAreKept(t *testing.T) {
	var out bytes.Buffer
	p := &escapingWriter{out: &out}
	for _, b := range []byte("grün 日本 😀 \u202e\x9b") {
		if n, err := p.Write([]byte{b}); n != 1 || err != nil {
			t.Fatalf("Write returned %d, %v, want 1 byte", n, err)
		}
	}
	_, _ = p.Write([]byte("\xe6\x97"))
	p.flush()
	if want := "grün 日本 😀 \\u202e\\x9b\\xe6\\x97"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestRawOutputIsNotEscaped(t *testing.T) {
	var out bytes.Buffer
	_, _ = Raw(&escapingWriter{out: &out}).Write([]byte(hostile))
	if out.String() != hostile || Raw(&out) != io.Writer(&out) {
		t.Errorf("got %q, want the text without escapes", out.String())
	}
}
