package ui

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

type layout struct {
	name, path string
	fleet      fleet.Fleet
	// clicks are the steps from the page at path to the checked page.
	clicks []click
}

// click is a click on a button. shows is an element of the next page.
type click struct{ button, shows string }

const accountLabel = "kyma-project.io/global-account-id"

func sampleUUID(i int) string {
	n := uint32(i) * 2654435761 // so that the digits of the UUIDs differ
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%07x%05d", n, n>>7&0xffff, n>>11&0xfff, n>>17&0xfff, n>>3&0xfffffff, i)
}

// sampleUUIDs returns a fleet whose runtimes, Kymas and accounts have UUIDs instead of short names.
func sampleUUIDs(n int) fleet.Fleet {
	f := sampleFleet(n, false)
	ids := map[string]string{}
	for i := range f.Runtimes { // sampleFleet returns runtimes in the order of their numbers
		r := &f.Runtimes[i]
		ids[r.ID] = sampleUUID(i)
		r.ID, r.Kyma = sampleUUID(i), sampleUUID(i)
		r.Labels[accountLabel] = sampleUUID(i / 3)
	}
	slices.SortFunc(f.Runtimes, func(a, b fleet.Runtime) int { return cmp.Compare(a.ID, b.ID) })
	for i := range f.Rollouts {
		status := &f.Rollouts[i].Status
		for j := range status.Failures {
			status.Failures[j].Runtime = ids[status.Failures[j].Runtime]
		}
		for j := range status.Waves {
			for k := range status.Waves[j].Checks {
				status.Waves[j].Checks[k].WorstRuntime = ids[status.Waves[j].Checks[k].WorstRuntime]
			}
		}
	}
	return f
}

func layouts() []layout {
	ill, hurt := sampleFleet(1000, false), sampleFleet(3, true)
	hurt.Runtimes[0].Health, hurt.Runtimes[0].Cause = fleet.Failing, &fleet.Cause{
		Message: hostile,
		Advice:  strings.Repeat("long ", 200),
	}
	return append(layoutsWithUUIDs(), []layout{
		{name: "overview", path: "/", fleet: ill},
		{name: "healthy", path: "/", fleet: sampleFleet(1000, true)},
		{name: "one", path: "/", fleet: sampleFleet(1, true)},
		{name: "empty", path: "/", fleet: fleet.Fleet{}},
		{name: "hostile", path: "/", fleet: hurt},
		{name: "filtered", path: "/?health=Failing&module=keda&q=r-00#runtimes", fleet: ill},
		{name: "nothing-found", path: "/?q=nobody#runtimes", fleet: ill},
		{name: "groups", path: "/?group=label:" + regionLabel + "#runtimes", fleet: ill},
		{name: "runtime-failing", path: "/runtimes/r-00001", fleet: ill},
		{name: "runtime-behind", path: "/runtimes/r-00007", fleet: ill},
		{name: "runtime-new", path: "/runtimes/r-00006", fleet: ill},
		{name: "runtime-healthy", path: "/runtimes/r-00010", fleet: ill},
		{name: "rollouts", path: "/rollouts", fleet: ill},
		{name: "rollout", path: "/rollouts/keda-regular-4", fleet: ill},
		{name: "modules", path: "/modules", fleet: ill},
		{name: "images", path: "/images", fleet: ill},
		{name: "missing", path: "/runtimes/nobody", fleet: ill},
	}...)
}

func layoutsWithUUIDs() []layout {
	f := sampleUUIDs(300)
	labels := "/?column=" + url.QueryEscape(accountLabel+","+regionLabel)
	confirm := click{"form.actions button[value=suspend]", ".confirm"}
	return []layout{
		{name: "uuids", path: "/", fleet: f},
		{name: "label-columns", path: labels + "#runtimes", fleet: f},
		{name: "label-column", path: "/?column=" + url.QueryEscape(accountLabel) + "#runtimes", fleet: f},
		{name: "uuid-runtime", path: "/runtimes/" + sampleUUID(1), fleet: f},
		{name: "uuid-rollout", path: "/rollouts/keda-regular-4", fleet: f},
		{name: "confirm", path: "/", fleet: f, clicks: []click{confirm}},
		{name: "confirm-rollout", path: "/rollouts/keda-regular-4", fleet: f, clicks: []click{
			{"button[value=undo]", ".confirm"},
		}},
		{name: "acted", path: "/?health=Failing#runtimes", fleet: f, clicks: []click{
			confirm, {".confirm button.main", ".failed"},
		}},
	}
}

func TestLabelColumnsAreVisibleInAllWidths(t *testing.T) {
	b := newBrowser(t)
	f := sampleUUIDs(300)
	s := serve(t, f, nil)
	first := f.Runtimes[newSnapshot(f, 1).worstFirst[0]].Labels
	for _, width := range []int64{1280, 768, 390} {
		b.checkLayout(width, 900, "light")
		b.do(chromedp.Navigate(s.URL + "/"))
		b.until(live)
		for at, key := range []string{accountLabel, regionLabel} {
			read[bool](b, fmt.Sprintf(`(() => { const list = document.querySelectorAll("select[name=column]")[%d];
				list.focus(); list.value = %q; return list.dispatchEvent(new Event("input", {bubbles: true})) })()`, at, key))
			b.until(fmt.Sprintf(`document.querySelectorAll(".runtimes tbody tr:first-child .c-label").length === %d`, at+1))
		}
		shown := read[[]string](b, `[...document.querySelectorAll(".runtimes tbody tr:first-child .c-label")]
			.filter(e => e.clientWidth > 0).map(e => e.innerText)`)
		if want := []string{first[accountLabel], first[regionLabel]}; !slices.Equal(shown, want) {
			t.Errorf("%d pixels: the first row shows labels %q, want %q", width, shown, want)
		}
		// After the first label is removed, the second one moves to the first column.
		read[bool](b, `(() => { const list = document.querySelector("select[name=column]");
			list.focus(); list.value = ""; return list.dispatchEvent(new Event("input", {bubbles: true})) })()`)
		b.until(`document.querySelectorAll(".runtimes tbody tr:first-child .c-label").length === 1`)
		got := read[[]string](b, `[...document.querySelectorAll("select[name=column]")].map(e => e.value)`)
		if !slices.Equal(got, []string{regionLabel, ""}) {
			t.Errorf("%d pixels: the lists of labels show %q", width, got)
		}
	}
}
