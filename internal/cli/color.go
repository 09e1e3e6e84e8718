package cli

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Color is a word's terminal color.
type Color string

// Colors for words.
const (
	Plain  Color = ""
	Faint  Color = "\x1b[2m"
	Red    Color = "\x1b[31m"
	Green  Color = "\x1b[32m"
	Yellow Color = "\x1b[33m"
)

const noColor = "\x1b[0m"

// colorSequence matches a color sequence with a marker, and the sequence that ends a color.
var colorSequence = regexp.MustCompile(`\x1b\[(?:0|(1|2|31|32|33);([0-9]+))m`)

// Palette adds terminal colors to words. The zero value does not add colors.
type Palette struct {
	// marker is part of each color sequence. It is random, so text from runtimes, registries and charts cannot contain
	// a color sequence that a command's output accepts.
	marker string
}

// IsTerminal reports whether out is a terminal.
func IsTerminal(out io.Writer) bool {
	file, ok := Raw(out).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// NewPalette returns the palette for a command that writes to out.
func NewPalette(out io.Writer) Palette {
	p, ok := out.(*escapingWriter)
	if !ok {
		return Palette{}
	}
	return Palette{p.colorMarker}
}

// Paint returns a word in a color.
func (p Palette) Paint(color Color, word string) string {
	if p.marker == "" || color == Plain || word == "" {
		return word
	}
	return strings.TrimSuffix(string(color), "m") + ";" + p.marker + "m" + word + noColor
}

// newColorMarker returns a random marker for color sequences.
func newColorMarker() string { return strconv.FormatUint(uint64(rand.Uint32())|1<<31, 10) }

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

// Width returns the terminal's number of columns, or 80 if out is not a terminal.
func Width(out io.Writer) int {
	if file, ok := Raw(out).(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return unknownWidth
}
