package ui

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// The script replaces the browser's clipboard, because a headless browser does not have one.
func TestCopyButtonCopiesTheCommandOrSelectsIt(t *testing.T) {
	b := newBrowser(t)
	s := serve(t, sampleFleet(120, false), nil)
	b.checkLayout(1280, 900, "light")
	const button = `document.querySelector("button.copy")`
	for name, c := range map[string]struct{ clipboard, shows, copied string }{
		"clipboard":          {`{writeText: async text => { window.copied = text }}`, "Copied", button + ".dataset.text"},
		"refused by browser": {`{writeText: async () => { throw new Error("refused") }}`, "Not copied", `""`},
		"page without TLS":   {`undefined`, "Not copied", `""`},
	} {
		b.do(chromedp.Navigate(s.URL + "/"))
		b.until(live)
		read[int](b, `window.copied = "", window.faults = 0, onunhandledrejection = () => { faults++ }, window.texts = [],
			new MutationObserver(() => texts.push(`+button+`.textContent)).observe(`+button+`, {childList: true}),
			Object.defineProperty(navigator, "clipboard", {value: `+c.clipboard+`}), 0`)
		b.do(chromedp.Click("button.copy"))
		b.until(`window.texts[0] === "` + c.shows + `" && window.copied === ` + c.copied)
		if c.shows != "Copied" && !read[bool](b, `getSelection().toString() === `+button+`.dataset.text`) {
			t.Errorf("%s: the command is not selected", name)
		}
		if n := read[int](b, `window.faults`); n > 0 {
			t.Errorf("%s: %d unhandled errors", name, n)
		}
	}
}
