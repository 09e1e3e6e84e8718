package cli

import (
	"fmt"
	"io"
	"regexp"

	"golang.org/x/term"
)

// Color is the terminal color of a word.
type Color string

// Colors of words.
const (
	Plain  Color = ""
	Bold   Color = "\x1b[1m"
	Faint  Color = "\x1b[2m"
	Red    Color = "\x1b[31m"
	Green  Color = "\x1b[32m"
	Yellow Color = "\x1b[33m"
)

const noColor = "\x1b[0m"

// ownColors matches the program's own color sequences, which are not escaped in a command's output.
var ownColors = regexp.MustCompile(`\x1b\[(?:0|1|2|31|32|33)m`)

// Palette adds terminal colors to words. The zero value does not add colors.
type Palette struct{ on bool }

// NewPalette returns the palette of a command that writes to out.
func NewPalette(out io.Writer) Palette {
	p, ok := out.(*escapingWriter)
	return Palette{ok && p.colors}
}

// Paint returns a word in a color. The caller must pass text from other programs through bundle.PrintableLine first.
func (p Palette) Paint(color Color, word string) string {
	if !p.on || color == Plain || word == "" {
		return word
	}
	return string(color) + word + noColor
}

// isColored reports whether to color the output. mode is the value of --color.
func isColored(mode string, terminal bool, env func(string) string) (bool, error) {
	switch mode {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
		return terminal && env("NO_COLOR") == "" && env("TERM") != "dumb", nil
	}
	return false, Usage(fmt.Errorf("--color %q: must be auto, always or never", mode))
}

// unknownWidth is the assumed width of an output that is not a terminal.
const unknownWidth = 80

// Width returns the number of columns of the terminal, or 80 if out is not a terminal.
func Width(out io.Writer) int {
	if file, ok := Raw(out).(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return unknownWidth
}
