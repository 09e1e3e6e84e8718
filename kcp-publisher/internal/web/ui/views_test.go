package ui

import (
	"net/url"
	"regexp"
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
	_, table, _ := strings.Cut(page, `<table class="list runtimes labeled labels-2">`)
	if n := strings.Count(table, `<th scope="col" class="c-label`); n != maxColumns {
		t.Errorf("got %d label columns, want %d", n, maxColumns)
	}
	var regions []string
	for cell := range strings.SplitSeq(table, `<td class="c-label" data-label="`+regionLabel+`">`) {
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

func TestFormOffersBothLabelColumns(t *testing.T) {
	const plan = "kyma-project.io/plan"
	s := serve(t, sampleFleet(9, true), nil)
	for form, want := range map[string]struct {
		chosen  []string // labels that the form's lists show as selected
		columns int
	}{
		"/":                                {[]string{""}, 0},
		"/?column=":                        {[]string{""}, 0},
		"/?column=" + plan:                 {[]string{plan, ""}, 1},
		"/?column=" + plan + "&column=":    {[]string{plan, ""}, 1},
		"/?column=&column=" + plan:         {[]string{plan, ""}, 1},
		"/?column=" + plan + "," + plan:    {[]string{plan, ""}, 1},
		"/?column=" + plan + "&column=own": {[]string{plan, "own"}, 2},
		"/?column=" + regionLabel + "&column=" + plan: {[]string{regionLabel, plan}, 2},
		"/?column=" + regionLabel + "," + plan + ",x": {[]string{regionLabel, plan}, 2},
	} {
		_, page, _ := s.get(t, form)
		var chosen []string
		for list := range strings.SplitSeq(page, `<select name="column">`) {
			if list, _, _ = strings.Cut(list, "</select>"); strings.HasPrefix(list, `<option value="">none`) {
				choice := regexp.MustCompile(`value="([^"]+)" selected`).FindStringSubmatch(list)
				chosen = append(chosen, append(choice, "", "")[1])
			}
		}
		if !slices.Equal(chosen, want.chosen) {
			t.Errorf("%s: the form has label columns %q, want %q", form, chosen, want.chosen)
		}
		if n := strings.Count(page, `<th scope="col" class="c-label"`); n != want.columns {
			t.Errorf("%s: got %d label columns, want %d", form, n, want.columns)
		}
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
