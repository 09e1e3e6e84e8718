package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/alerts"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// healthOf maps a runtime's ID to the health that all outputs must show for it. It has one runtime for each health
// value.
var healthOf = map[string]string{
	"healthy": "Healthy", "failing": "Failing", "unresolved": "Failing", "silent": "Silent", "never": "NeverReported",
	"suspended": "Suspended", "deleting": "Deleting", "behind": "Behind",
}

func TestStatusUIMetricsAndAlertsShowTheSameHealth(t *testing.T) {
	metrics := freeAddress(t)
	f := newFleet(t, fleet.Options{
		Silence: 20 * time.Second,
		PublisherFlags: []string{
			"--metrics-bind-address", metrics, "--metrics-auth=false", "--set", "report-poll-interval=300ms",
		},
	})
	o := newOperator(t, f)
	createRuntimeForEachHealth(t, f, o)

	until(t, 2*time.Minute, "status shows the health of each runtime", func() (bool, string) {
		output := o.run(0, "status", "-o", "json", "--context", "kcp")
		var got struct{ Runtimes []struct{ ID, Health string } }
		must(t, json.Unmarshal([]byte(output), &got))
		shown := map[string]string{}
		for _, r := range got.Runtimes {
			shown[r.ID] = r.Health
		}
		return maps.Equal(shown, healthOf), fmt.Sprintf("%v\n%s", shown, output)
	})
	attention := attentionByExitCode(t, o)
	urgent := 0
	for _, health := range healthOf {
		if attention[health] {
			urgent++
		}
	}
	verdict := fmt.Sprintf("%d of %d runtimes need attention", urgent, len(healthOf))
	if got := o.run(3, "status", "--exit-code", "--context", "kcp"); !strings.HasPrefix(got, verdict+": ") {
		t.Errorf("status does not begin with %q:\n%s", verdict, got)
	}
	checkPage(t, openPage(t, f), verdict)
	checkAlerts(t, exportedHealth(t, metrics), attention)
}

func TestMetricsCountKymaThatNoPublisherSelects(t *testing.T) {
	one, two := freeAddress(t), freeAddress(t)
	f := newFleet(t, fleet.Options{PublisherFlags: []string{
		"--watch-label-selector", "publisher=one", "--metrics-bind-address", one, "--metrics-auth=false", "--set",
		"report-poll-interval=300ms",
	}})
	second, err := f.StartReplica("--watch-label-selector", "publisher=two", "--metrics-bind-address", two)
	must(t, err)
	t.Cleanup(func() { must(t, second.Stop()) })
	for id, publisher := range map[string]string{"first": "one", "second": "two", "third": "three"} {
		kyma := fleet.NewKyma(id, "regular", "scaler")
		kyma.Labels["publisher"] = publisher
		must(t, f.CreateKyma(t.Context(), kyma))
	}
	for _, address := range []string{one, two} {
		until(t, time.Minute, "a publisher counts its Kyma and the Kyma that no publisher selects", func() (bool, string) {
			connection, err := net.Dial("tcp", address)
			if err != nil {
				return false, err.Error() // the publisher is starting
			}
			must(t, connection.Close())
			text := scraped(t, address, "")
			scrape, err := alerts.Scraped(strings.NewReader(text))
			must(t, err)
			return scrape[fmt.Sprintf(healthSeries, "NeverReported")] == 1 &&
				scrape[`kyma_pull_publisher_unreconciled_runtimes{health="NeverReported"}`] == 1, text
		})
	}
	const verdict = "3 of 3 runtimes need attention: "
	if got := newOperator(t, f).run(3, "status", "--exit-code", "--context", "kcp"); !strings.HasPrefix(got, verdict) {
		t.Errorf("status does not begin with %q:\n%s", verdict, got)
	}
}

// createRuntimeForEachHealth adds the runtimes in healthOf and causes each runtime's health.
func createRuntimeForEachHealth(t *testing.T, f *fleet.Fleet, o operator) {
	t.Helper()
	ctx := t.Context()
	simulated := map[string]*fleet.Simulated{}
	for _, id := range []string{"healthy", "failing", "silent", "suspended", "deleting", "behind"} {
		kyma := fleet.NewKyma(id, "regular", "scaler")
		if id == "deleting" || id == "behind" { // air-gapped runtimes do not become silent
			kyma.Annotations = map[string]string{v1beta2.AnnotationCarried: "48h"}
		}
		var err error
		simulated[id], err = f.Simulate(ctx, kyma)
		must(t, err)
	}
	must(t, f.CreateKyma(ctx, fleet.NewKyma("never", "regular", "scaler")))
	must(t, f.CreateKyma(ctx, fleet.NewKyma("unresolved", "regular", "scalr")))
	for id, s := range simulated {
		until(t, time.Minute, id+" is healthy", func() (bool, string) {
			output := o.run(0, "status", id, "-o", "json", "--context", "kcp")
			return strings.Contains(output, `"health": "Healthy"`) && s.Enrolled(), output
		})
	}
	simulated["failing"].BreakWith("1.8.0")
	for _, id := range []string{"silent", "deleting", "behind"} {
		simulated[id].GoAway()
	}
	o.run(0, "suspend", "suspended", "--context", "kcp")
	deleted, err := simulated["deleting"].Record(ctx)
	must(t, err)
	must(t, f.Control.Delete(ctx, deleted))
	promote(t, f, "1.8.0")
}

// attentionByExitCode returns, for each health value, whether `status RUNTIME --exit-code` exits with 3.
func attentionByExitCode(t *testing.T, o operator) map[string]bool {
	t.Helper()
	attention := map[string]bool{}
	for id, health := range healthOf {
		output, code := o.try("status", id, "--exit-code", "--context", "kcp")
		if code != 0 && code != 3 {
			t.Fatalf("status %s --exit-code: exit code %d\n%s", id, code, output)
		}
		if known, is := attention[health]; is && known != (code == 3) {
			t.Errorf("status %s --exit-code: exit code %d differs from other runtimes that are %s", id, code, health)
		}
		attention[health] = code == 3
	}
	return attention
}

var runtimeLinks = regexp.MustCompile(`href="/runtimes/([a-z]+)`)

// checkPage checks that the page lists each runtime under its health.
func checkPage(t *testing.T, p *localPage, verdict string) {
	t.Helper()
	until(t, time.Minute, "the page shows the control plane's data", func() (bool, string) {
		status, body := p.get(t, p.address)
		return status == http.StatusOK && strings.Contains(body, verdict), body
	})
	for _, health := range healthOf {
		var want []string
		for id, has := range healthOf {
			if has == health {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		_, body := p.get(t, p.base+"/?health="+health)
		_, table, found := strings.Cut(body, `id="runtimes"`)
		var got []string
		for _, link := range runtimeLinks.FindAllStringSubmatch(table, -1) {
			got = append(got, link[1])
		}
		slices.Sort(got)
		if got = slices.Compact(got); !found || !slices.Equal(got, want) {
			t.Errorf("the page lists %v as %s, want %v", got, health, want)
		}
	}
}

const healthSeries = `kyma_pull_publisher_runtime_health{health="%s"}`

// exportedHealth scrapes the publisher until its runtime counts by health match healthOf, and returns that scrape.
func exportedHealth(t *testing.T, address string) map[string]float64 {
	t.Helper()
	want := map[string]float64{}
	for _, health := range healthOf {
		want[fmt.Sprintf(healthSeries, health)]++
	}
	var scrape map[string]float64
	until(t, time.Minute, "the metrics count the same runtimes by health", func() (bool, string) {
		var err error
		scrape, err = alerts.Scraped(strings.NewReader(scraped(t, address, "")))
		must(t, err)
		got := map[string]float64{}
		for series, value := range scrape {
			if strings.HasPrefix(series, "kyma_pull_publisher_runtime_health{") {
				got[series] = value
			}
		}
		return maps.Equal(got, want), fmt.Sprint(got)
	})
	return scrape
}

// checkAlerts checks that the chart has one alert for each health that needs attention, and that alerts fire only for
// runtimes with that health.
func checkAlerts(t *testing.T, scrape map[string]float64, attention map[string]bool) {
	t.Helper()
	file := alerts.File(filepath.Join("..", ".."), "kcp-publisher")
	all, err := alerts.Read(file)
	must(t, err)
	const minutes = 120
	var cases []alerts.Case
	var firing []string
	for health, urgent := range attention {
		series := fmt.Sprintf(healthSeries, health)
		alone := maps.Clone(scrape)
		for other := range attention {
			alone[fmt.Sprintf(healthSeries, other)] = 0
		}
		alone[series] = scrape[series]
		c := alerts.Case{
			Name: "only runtimes that are " + health, Series: alerts.Changing(alone, alone, minutes),
			At: minutes * time.Minute,
		}
		for _, a := range all {
			if strings.Contains(a.Expr, `health="`+health+`"`) {
				c.Firing = append(c.Firing, a.Alert)
			}
		}
		if urgent != (len(c.Firing) == 1) {
			t.Errorf("runtimes that are %s need attention: %t, but their alerts are %v", health, urgent, c.Firing)
		}
		firing = append(firing, c.Firing...)
		cases = append(cases, c)
	}
	cases = append(cases, alerts.Case{
		Name: "the whole fleet", Series: alerts.Changing(scrape, scrape, minutes), At: minutes * time.Minute,
		Firing: firing,
	})
	must(t, alerts.Check(t.Context(), t.TempDir(), file, cases))
}
