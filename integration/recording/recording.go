// Package recording draws the output of a command as an animated SVG without scripts, fonts or links.
//
// The animation has a fixed length, so equal output gives equal recordings. It follows the reader's color scheme, and
// shows the final picture if the reader prefers reduced motion.
package recording

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Recording is the output of a command.
type Recording struct {
	// Title is the text for readers who do not see the picture.
	Title string
	// Command is the command line.
	Command string
	// Steps contains the titles of the steps. The picture shows every step as succeeded.
	Steps []string
	// Rest contains the output after the steps, as lines.
	Rest []string
}

const (
	// Length is the duration of the animation.
	Length = 20 * time.Second
	// begin and end are the times of the first and the last step, in percent of the animation's length.
	begin, end = 4.0, 76.0

	lineHeight, charWidth, margin = 19.0, 7.83, 20.0
)

const style = `text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}
text{fill:#1f2328}
rect{fill:#f6f8fa;stroke:#d1d9e0}.ok{fill:#1a7f37}.dim{fill:#59636e}
@media(prefers-color-scheme:dark){
text{fill:#f0f6fc}rect{fill:#151b23;stroke:#3d444d}.ok{fill:#3fb950}.dim{fill:#9198a1}}
.run{opacity:0}
`

// SVG returns the picture.
func (r Recording) SVG() []byte {
	lines, width := 1+len(r.Steps)+len(r.Rest), utf8.RuneCountInString(r.Command)+2
	for _, line := range append(append([]string{}, r.Steps...), r.Rest...) {
		width = max(width, utf8.RuneCountInString(line)+6)
	}
	w, h := float64(width)*charWidth+2*margin, float64(lines)*lineHeight+2*margin
	var rules, body bytes.Buffer
	line := 0
	text := func(class, content string) {
		fmt.Fprintf(&body, "<text class=\"%s\" x=\"%.0f\" y=\"%.0f\" xml:space=\"preserve\">%s</text>\n", class, margin,
			margin+float64(line)*lineHeight+14, content)
	}
	text("", `<tspan class="dim">$</tspan> `+escaped(r.Command))
	line++
	share := (end - begin) / float64(max(len(r.Steps), 1))
	for i, step := range r.Steps {
		from, to := begin+float64(i)*share, begin+float64(i+1)*share
		fmt.Fprintf(&rules,
			"@keyframes r%[1]d{0%%,%.2[2]f%%{opacity:0}%.2[3]f%%,%.2[4]f%%{opacity:1}%.2[5]f%%,100%%{opacity:0}}\n", i,
			from, from+0.01, to, to+0.01)
		fmt.Fprintf(&rules, "@keyframes d%[1]d{0%%,%.2[2]f%%{opacity:0}%.2[3]f%%,100%%{opacity:1}}\n", i, to, to+0.01)
		numbered := fmt.Sprintf("%d. %s", i+1, escaped(step))
		text(fmt.Sprintf("run r%d", i), `<tspan class="dim">…</tspan> `+numbered)
		text(fmt.Sprintf("d%d", i), `<tspan class="ok">✓</tspan> `+numbered)
		line++
	}
	fmt.Fprintf(&rules, "@keyframes z{0%%,%.2f%%{opacity:0}%.2f%%,100%%{opacity:1}}\n", end+1, end+1.01)
	for _, content := range r.Rest {
		text("z", escaped(content))
		line++
	}
	fmt.Fprintf(&rules, "@media(prefers-reduced-motion:no-preference){.z{animation:z %s infinite}", Length)
	for i := range r.Steps {
		fmt.Fprintf(&rules, ".r%[1]d{animation:r%[1]d %[2]s infinite}.d%[1]d{animation:d%[1]d %[2]s infinite}", i,
			Length)
	}
	rules.WriteString("}\n")
	var out bytes.Buffer
	fmt.Fprintf(
		&out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" role=\"img\">\n"+
			"<title>%s</title>\n<style>\n%s%s</style>\n",
		w,
		h,
		w,
		escaped(r.Title),
		style,
		rules.String(),
	)
	fmt.Fprintf(&out, "<rect x=\"0.5\" y=\"0.5\" width=\"%.0f\" height=\"%.0f\" rx=\"8\"/>\n%s</svg>\n", w-1, h-1,
		body.String())
	return out.Bytes()
}

func escaped(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a strings.Builder never fails
	return out.String()
}
