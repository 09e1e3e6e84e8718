package ui

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestLabelColumnsShowAndSortLabels(t *testing.T) {
	s := serve(t, sampleFleet(9, true), nil)
	_, plain, _ := s.get(t, "/")
	if strings.Contains(plain, `class="c-label`) || !strings.Contains(plain, `<option value="`+regionLabel+`">`) {
		t.Error("the page shows an unselected label column, or does not offer the label")
	}
	_, page, _ := s.get(t, "/?column="+url.QueryEscape(regionLabel+",kyma-project.io/plan,more")+"&sort="+
		url.QueryEscape("label:"+regionLabel))
	_, table, _ := strings.Cut(page, `<table class="list runtimes">`)
	if n := strings.Count(table, `<th scope="col" class="c-label`); n != maxColumns {
		t.Errorf("got %d label columns, want %d", n, maxColumns)
	}
	var regions []string
	for cell := range strings.SplitSeq(table, `<td class="c-label wide">`) {
		if region, _, _ := strings.Cut(cell, "<"); strings.HasSuffix(region, "-1") {
			regions = append(regions, region)
		}
	}
	if len(regions) != 9 || !slices.IsSorted(regions) || regions[0] != "ap-south-1" {
		t.Errorf("got regions %q, want 9 sorted ones", regions)
	}
	if _, page, _ := s.get(t, "/?column="+url.QueryEscape(hostile)); strings.Contains(page, hostile) {
		t.Error("a label column from the address is not escaped")
	}
}

func TestViewIsSavedInTheBrowser(t *testing.T) {
	b := newBrowser(t)
	s := serve(t, sampleFleet(120, false), nil)
	b.checkLayout(1280, 900, "light")
	b.do(chromedp.Navigate(s.URL + "/"))
	b.until(live)
	if read[bool](b, `!document.getElementById("views").hidden`) {
		t.Error("the page offers to save a view without a filter")
	}
	b.do(chromedp.Navigate(s.URL + "/?health=Failing&column=" + url.QueryEscape(regionLabel)))
	b.until(live)
	read[bool](b, `(() => { window.prompt = () => "<b>Failing</b>"; return true })()`)
	b.do(chromedp.Click("#views .save"))
	const names = `[...document.querySelectorAll("#views li a")].map(a => a.innerText).join()`
	b.until(names + ` === "<b>Failing</b>"`)
	b.saveScreenshot("saved-view", false)

	b.do(chromedp.Navigate(s.URL + "/"))
	b.until(live + ` && ` + names + ` === "<b>Failing</b>"`)
	b.do(chromedp.Click("#views li a"))
	b.until(
		`location.search.includes("health=Failing") && document.querySelectorAll(".runtimes tbody tr").length === 8`)
	b.do(chromedp.Click("#views li button"))
	b.until(names + ` === ""`)
	b.do(chromedp.Navigate(s.URL + "/"))
	b.until(live + ` && document.getElementById("views").hidden`)
}
