package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// escapingWriter is a writer that escapes control characters. Text from registries, charts and runtimes could contain
// terminal escape sequences.
type escapingWriter struct {
	out io.Writer
	// partialCharacter contains an incomplete UTF-8 character at the end of the last write.
	partialCharacter []byte
	// colorMarker marks the program's own color sequences, which are not escaped. If it is empty, the output has no
	// colors.
	colorMarker string
}

// Raw returns the underlying writer of a command's output, which does not escape control characters. Use it for
// progress bars and machine-readable data.
func Raw(out io.Writer) io.Writer {
	if p, ok := out.(*escapingWriter); ok {
		return p.out
	}
	return out
}

func (p *escapingWriter) Write(data []byte) (int, error) {
	text := slices.Concat(p.partialCharacter, data)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if utf8.RuneStart(text[len(text)-back]) {
			if !utf8.FullRune(text[len(text)-back:]) {
				whole = len(text) - back
			}
			break
		}
	}
	p.partialCharacter = slices.Clone(text[whole:])
	if _, err := io.WriteString(p.out, p.printable(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(data), nil
}

// printable escapes control characters. If colors are enabled, it keeps the program's own color sequences, without
// their marker.
func (p *escapingWriter) printable(text string) string {
	if p.colorMarker == "" {
		return bundle.Printable(text)
	}
	var out strings.Builder
	done := 0
	for _, at := range colorSequence.FindAllStringSubmatchIndex(text, -1) {
		sequence := noColor
		if at[2] >= 0 {
			if text[at[4]:at[5]] != p.colorMarker {
				continue
			}
			sequence = "\x1b[" + text[at[2]:at[3]] + "m"
		}
		out.WriteString(bundle.Printable(text[done:at[0]]))
		out.WriteString(sequence)
		done = at[1]
	}
	out.WriteString(bundle.Printable(text[done:]))
	return out.String()
}

// flush writes an incomplete character that remained after the last write.
func (p *escapingWriter) flush() {
	// Ignore the error, because the program exits.
	_, _ = io.WriteString(p.out, bundle.Printable(string(p.partialCharacter)))
	p.partialCharacter = nil
}

// writeJSON writes data as JSON and escapes all control characters. encoding/json escapes only some control characters.
func writeJSON(out io.Writer, data any) error {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(data); err != nil {
		return err
	}
	_, err := Raw(out).Write(escape(buffer.Bytes(), inJSON))
	return err
}

// inJSON and inYAML return the escape sequence of a character above U+FFFF in a double-quoted string.
func inJSON(r rune) string {
	high, low := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}

func inYAML(r rune) string { return fmt.Sprintf(`\U%08x`, r) }

// escape replaces unprintable characters with escape sequences for double-quoted strings.
func escape(text []byte, wide func(rune) string) []byte {
	if !hasHidden(string(text)) {
		return text
	}
	var out bytes.Buffer
	for _, r := range string(text) {
		switch {
		case isPrintable(r):
			out.WriteRune(r)
		case r > 0xffff:
			out.WriteString(wide(r))
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}

func isPrintable(r rune) bool { return unicode.IsGraphic(r) || r == '\n' }

func hasHidden(text string) bool {
	return slices.ContainsFunc([]rune(text), func(r rune) bool { return !isPrintable(r) })
}

// writeYAML writes data as YAML with escaped control characters.
func writeYAML(out io.Writer, data any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(escape(encoded, inYAML)) // JSONToYAML rejects raw control characters
	if err != nil {
		return err
	}
	if hasHidden(string(text)) {
		var document yamlv3.Node
		if err := yamlv3.Unmarshal(text, &document); err != nil {
			return err
		}
		quote(&document)
		quoted, err := yamlv3.Marshal(&document)
		if err != nil {
			return err
		}
		text = escape(quoted, inYAML)
	}
	_, err = Raw(out).Write(text)
	return err
}

func quote(node *yamlv3.Node) {
	if node.Kind == yamlv3.ScalarNode && hasHidden(node.Value) {
		node.Style = yamlv3.DoubleQuotedStyle
	}
	for _, inner := range node.Content {
		quote(inner)
	}
}
