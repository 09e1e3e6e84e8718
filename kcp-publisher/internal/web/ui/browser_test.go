package ui

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// stepTimeout is the maximum time of one browser step on a busy machine.
const stepTimeout = 2 * time.Minute

type browser struct {
	*testing.T
	ctx context.Context
}

// newBrowser skips the test if $CHROMIUM is not set. Only make test-ui sets $CHROMIUM, so make test does not run these
// tests a second time.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	program := os.Getenv("CHROMIUM")
	if program == "" {
		t.Skip("run make test-ui, which finds or installs Chromium, or set $CHROMIUM to its path")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.WSURLReadTimeout(stepTimeout), chromedp.UserDataDir(t.TempDir()))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, stop := chromedp.NewContext(allocator)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); stop() })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &browser{t, ctx}
}

// do runs steps in the browser, and ends the test if one fails.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	limited, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	if err := chromedp.Do(limited, steps...); err != nil {
		b.Fatalf("%v; the page shows:\n%s", err, b.shown())
	}
}

func read[T any](b *browser, expression string) T {
	b.Helper()
	limited, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	value, err := chromedp.Run(limited, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v; the page shows:\n%s", cleanLine(200, expression), err, b.shown())
	}
	return value
}

// until waits for an expression to be true in the page.
func (b *browser) until(expression string) {
	b.Helper()
	limited, cancel := context.WithTimeout(b.ctx, stepTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// The evaluation fails during a navigation, so repeat it.
		if is, err := chromedp.Run(limited, chromedp.Evaluate[bool]("!!("+expression+")")); err == nil && is {
			return
		}
		select {
		case <-limited.Done():
			b.Fatalf("timed out waiting for %s; the page shows:\n%s", expression, b.shown())
		case <-tick.C:
		}
	}
}

func (b *browser) shown() string {
	limited, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, _ := chromedp.Run(limited, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	return truncate(text, 4000)
}

func (b *browser) checkLayout(width, height int64, scheme string) {
	b.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	media := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme},
			{Name: "prefers-reduced-motion", Value: "reduce"},
		},
	}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.Fatal(err)
	}
}

const live = `document.querySelector("#live").dataset.state === "on"`

// saveScreenshot saves a screenshot of the visible part, or of the whole page, in the folder $SCREENSHOTS.
func (b *browser) saveScreenshot(name string, whole bool) {
	b.Helper()
	folder := os.Getenv("SCREENSHOTS")
	if folder == "" {
		return
	}
	take := chromedp.CaptureScreenshot()
	if whole {
		take = chromedp.FullScreenshot(100)
	}
	picture, err := chromedp.Run(b.ctx, take)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600); err != nil {
		b.Fatal(err)
	}
}

func TestUsersSeeTheStateOfTheFleet(t *testing.T) {
	b := newBrowser(t)
	s := serve(t, sampleFleet(1000, false), nil)
	b.checkLayout(1280, 900, "light")
	b.do(chromedp.Navigate(s.URL + "/"))
	b.until(live)
	if heading, title := read[string](b, `document.querySelector("h1").innerText`),
		read[string](b, "document.title"); heading != "60 of 1,000 runtimes need attention" ||
		title != "Fleet · kcp-system · kyma-pull" {
		t.Errorf("got heading %q and title %q", heading, title)
	}
	const plain = `.innerText.replace(/\s+/g, " ").trim()`
	if got := read[string](b, `[...document.querySelectorAll(".tile")].map(t => t`+plain+
		`).join(", ")`); got != "40 Failing, 10 Silent, 10 Never reported, 20 Behind, 10 Suspended, 0 Deleting, 910 "+
		"Healthy" {
		t.Errorf("got tiles %s", got)
	}
	rows := read[[]string](b, `[...document.querySelectorAll(".runtimes tbody tr")].map(t => t`+plain+`)`)
	if len(rows) != pageSize || !strings.HasPrefix(rows[0], "r-00001 Failing Module keda is Error") ||
		!strings.HasSuffix(rows[0], "regular 1/2 in force reporting") {
		t.Errorf("got %d rows, the first is %q", len(rows), rows[0])
	}

	// Text in the search field filters the table, and remains in the field while the fleet changes.
	b.do(chromedp.SendKeys("input[name=q]", "r-0007"))
	b.until(`document.querySelectorAll(".runtimes tbody tr").length === 10 && location.search === "?q=r-0007"`)
	changed := sampleFleet(1000, false)
	changed.Runtimes[70].Health, changed.Runtimes[70].Cause = fleet.Failing, &fleet.Cause{
		Message: hostile,
		Advice:  hostile,
	}
	s.source.setFleet(changed)
	b.until(`document.querySelector(".runtimes tbody tr").innerText.includes("Failing")`)
	if got := read[[]string](b,
		`[document.activeElement.name, document.activeElement.value, document.querySelector(".runtimes .c-cause .one").innerText.slice(0, 21), document.title]`); strings.Join(got, "|") != "q|r-0007|</title></td><script>|Fleet · kcp-system · kyma-pull" {
		t.Errorf("after a change to the fleet, the page has %q", got)
	}
	read[bool](b,
		`(() => { const s = document.querySelector("select[name=health]"); s.value = "Healthy"; return s.dispatchEvent(new Event("input", {bubbles: true})) })()`)
	b.until(
		`document.querySelectorAll(".runtimes tbody tr").length === 9 && location.search.includes("health=Healthy") && location.search.includes("q=r-0007")`)
}

func TestPageIsUsableByKeyboard(t *testing.T) {
	b := newBrowser(t)
	s := serve(t, sampleFleet(120, false), nil)
	b.checkLayout(1280, 900, "light")
	b.do(chromedp.Navigate(s.URL + "/"))
	b.until(live)
	var order []string
	for range 15 {
		b.do(chromedp.KeyEvent(kb.Tab))
		order = append(order,
			read[string](b,
				`(document.activeElement.innerText || document.activeElement.name || "").replace(/\s+/g, " ").trim().slice(0, 16)`))
	}
	want := []string{
		"Skip to content",
		"kyma-pull kcp-sy",
		"Fleet",
		"Rollouts",
		"Modules",
		"Images",
		"System theme",
		"8 Failing",
		"1 Silent",
		"1 Never reported",
		"4 Behind",
		"2 Suspended",
		"0 Deleting",
		"104 Healthy",
	}
	for i := range want {
		if strings.Fields(order[i])[0] != strings.Fields(want[i])[0] && !strings.HasPrefix(order[i], "kyma-pull") &&
			i < 7 {
			t.Fatalf("the tab order is %q, want %q", order, want)
		}
	}
	if !strings.HasSuffix(order[7], "Failing") || !strings.HasSuffix(order[13], "Healthy") ||
		order[14] != "Copy" {
		t.Errorf("the tab order is %q, want %q and the first advice", order, want)
	}
	b.do(chromedp.Navigate(s.URL+"/"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	b.until(`document.activeElement.id === "main"`)
	b.do(chromedp.Focus(".runtimes tbody a"), chromedp.KeyEvent(kb.Enter))
	b.until(`location.pathname === "/runtimes/r-00001" && document.querySelector("h1").innerText === "r-00001"`)
}

func TestWaveIsApprovedOnThePage(t *testing.T) {
	b := newBrowser(t)
	s := serve(t, sampleFleet(100, false), nil)
	b.checkLayout(1280, 900, "light")
	b.do(chromedp.Navigate(s.URL + "/rollouts/keda-regular-4"))
	b.until(live)
	b.do(chromedp.Click("button[value=approve]"))
	b.until(
		`document.querySelector("h1").innerText === "Approve wave rest?" && location.pathname === "/rollouts/keda-regular-4"`)
	if len(s.changedRollouts) != 0 {
		t.Error("the wave is approved without confirmation")
	}
	b.do(chromedp.Click(".confirm button[value=approve]"))
	b.until(
		`location.search === "?done=approve" && document.querySelector(".told").innerText === "The wave is approved."`)
	if got := <-s.changedRollouts; len(got.Spec.ApprovedWaves) != 1 || got.Spec.ApprovedWaves[0] != "rest" {
		t.Errorf("got approved waves %v, want rest", got.Spec.ApprovedWaves)
	}
	b.until(`!document.querySelector("button[value=approve]")`)
	b.do(chromedp.Click("button[value=pause]"))
	b.until(`document.querySelector(".confirm button[value=pause]")`)
	b.do(chromedp.Click(".confirm button[value=pause]"))
	b.until(`document.querySelector("button[value=resume]")`)
	if got := <-s.changedRollouts; !got.Spec.Paused {
		t.Error("the rollout is not paused")
	}

	// The waves make progress while the page is open.
	changed := sampleFleet(100, false)
	changed.Rollouts[0].Status.Waves[1].Updated = 91
	s.source.setFleet(changed)
	b.until(`document.querySelector(".waves tbody").innerText.includes("91/100")`)
}

// layoutFaults is a script that returns the visible faults in a page's layout.
//
//go:embed testdata/layout.js
var layoutFaults string

func TestBrowserRemembersTheTheme(t *testing.T) {
	b := newBrowser(t)
	s := serve(t, sampleFleet(3, false), nil)
	b.checkLayout(1280, 900, "light")
	b.do(chromedp.Navigate(s.URL+"/"), chromedp.Click("#theme"), chromedp.Click("#theme"))
	b.until(
		`document.documentElement.dataset.theme === "dark" && document.querySelector("#theme").innerText === "Dark theme"`)
	b.do(chromedp.Navigate(s.URL + "/rollouts"))
	b.until(
		`document.documentElement.dataset.theme === "dark" && getComputedStyle(document.body).backgroundColor === "rgb(20, 23, 27)"`)
	b.do(chromedp.Click("#theme"))
	b.until(
		`!document.documentElement.dataset.theme && getComputedStyle(document.body).backgroundColor === "rgb(251, 251, 252)"`)
}

func TestPagesAreAccessibleInLightAndDark(t *testing.T) {
	b := newBrowser(t)
	axe, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		t.Logf("axe-core not found, so only the layout is checked: run make test-ui, which installs axe-core and sets $AXE")
	}
	for _, one := range layouts() {
		t.Run(one.name, func(t *testing.T) { (&browser{t, b.ctx}).checkPage(one, string(axe)) })
	}
}

// checkPage checks the layout and the accessibility of a page in all sizes and color schemes.
func (b *browser) checkPage(one layout, axe string) {
	s := serve(b, one.fleet, nil)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 768, 390} {
			name := fmt.Sprintf("%s-%s-%d", one.name, scheme, width)
			b.checkLayout(width, 900, scheme)
			b.do(chromedp.Navigate(s.URL+one.path), chromedp.WaitReady("#main"))
			for _, click := range one.clicks {
				b.do(chromedp.Click(click.button), chromedp.WaitReady(click.shows))
			}
			if wider := read[int64](b,
				`document.documentElement.scrollWidth - document.documentElement.clientWidth`); wider > 0 {
				b.Errorf("%s: the page is %d pixels wider than the window", name, wider)
			}
			b.checkFaults(name)
			b.saveScreenshot(name, !strings.HasPrefix(one.path, "/?") && one.path != "/")
			if axe != "" {
				b.checkAccessibility(name, axe)
			}
		}
	}
	s.CloseClientConnections()
}

// checkFaults checks the layout twice: with the longest and with the shortest text for the connection state.
func (b *browser) checkFaults(name string) {
	b.Helper()
	for _, state := range []string{"Connecting", "Live"} {
		read[int](b, fmt.Sprintf(`document.querySelectorAll("#live").forEach(e => e.textContent = %q), 0`, state))
		if bad := read[[]string](b, layoutFaults); len(bad) > 0 {
			b.Errorf("%s, %s: %s", name, state, strings.Join(bad, "\n  "))
		}
	}
}

// checkAccessibility fails the test for each serious axe-core finding. It runs the script through the debugger, because
// the page's Content-Security-Policy would block it.
func (b *browser) checkAccessibility(name, axe string) {
	b.Helper()
	read[int](b, axe+"\n;0")
	found := read[string](
		b,
		`axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v =>
		({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary)}))))`,
	)
	var violations []struct {
		ID, Impact, Help string
		Nodes            []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		b.Fatalf("%s: %v in %q", name, err, found)
	}
	for _, v := range violations {
		if v.Impact == "serious" || v.Impact == "critical" {
			b.Errorf("%s: %s (%s): %s\n  %s", name, v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "\n  "))
		} else {
			b.Logf("%s: %s (%s): %s\n  %s", name, v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "\n  "))
		}
	}
}

func TestOverviewHandlesTenThousandRuntimes(t *testing.T) {
	suite.Long(t)
	b := newBrowser(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := serve(t, sampleFleet(10_000, false), nil)
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.checkLayout(1280, 900, "light")
	first := time.Now()
	b.do(chromedp.Navigate(s.URL + "/"))
	b.until(`document.querySelectorAll(".runtimes tbody tr").length === 50`)
	t.Logf("10,000 runtimes: first row after %v, snapshot %d KiB", time.Since(first).Round(time.Millisecond),
		(after.HeapAlloc-before.HeapAlloc)>>10)
	b.saveScreenshot("ten-thousand", false)
	began := time.Now()
	b.do(chromedp.SendKeys("input[name=q]", "r-0999"))
	b.until(`document.querySelectorAll(".runtimes tbody tr").length === 10`)
	took := time.Since(began)
	nodes, bytes := read[int](b, `document.querySelectorAll("*").length`),
		read[int](b, `performance.getEntriesByType("navigation")[0].decodedBodySize`)
	t.Logf("filtered after %v with the wait for typing; %d elements, a page of %d KiB", took.Round(time.Millisecond),
		nodes, bytes>>10)
	began = time.Now()
	const times = 20
	for range times {
		s.get(t, "/?page=100")
	}
	t.Logf("a page is rendered in %v", (time.Since(began) / times).Round(time.Microsecond))
}
