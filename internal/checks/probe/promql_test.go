package probe

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

// answers returns a handler that serves data in Prometheus' response format.
func answers(data string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"success","data":`+data+`}`)
	}
}

// millionSeries serves a million time series, as Prometheus does for a query without aggregation.
func millionSeries(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w)
	fmt.Fprint(out, `{"status":"success","data":{"resultType":"vector","result":[`)
	for i := range 1_000_000 {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		if _, err := fmt.Fprintf(out, `{"metric":{"pod":"%d"},"value":[1,"1"]}`, i); err != nil {
			return
		}
	}
	fmt.Fprint(out, `]}}`)
	_ = out.Flush()
}

func TestQueryResultMustBeOneNumber(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  checks.Verdict
		value string
		text  string
	}{
		"scalar": {
			answers(`{"resultType":"scalar","result":[1700000000.1,"0.2"]}`), checks.Success, "0.2", "",
		},
		"one series": {
			answers(`{"resultType":"vector","result":[{"metric":{},"value":[1700000000.1,"0.2"]}]}`), checks.Success,
			"0.2", "",
		},
		"value above max": {
			answers(`{"resultType":"vector","result":[{"metric":{},"value":[1700000000.1,"0.3"]}]}`), checks.Failure,
			"0.3", "above max 0.25",
		},
		"partial response": {
			answers(scalarResult + `,"warnings":["No StoreAPIs matched for this query"]`), checks.Unknown, "",
			"the query returned a warning: No StoreAPIs matched for this query",
		},
		"many long warnings": {
			answers(scalarResult + `,"warnings":["` + strings.Repeat("\\u001b[2J", 500) + `","b","c"]`), checks.Unknown, "",
			"the query returned 3 warnings, the first is: ",
		},
		"info annotation": {
			answers(scalarResult + `,"infos":["PromQL info: metric might not be a counter"]`), checks.Success, "0.2", "",
		},
		"info annotation of Prometheus 2": {
			answers(scalarResult + `,"warnings":["PromQL info: metric might not be a counter"]`), checks.Success, "0.2", "",
		},
		"no data": {answers(`{"resultType":"vector","result":[]}`), checks.Unknown, "", "no data"},
		"two series": {
			answers(
				`{"resultType":"vector","result":[{"metric":{"a":"1"},"value":[1,"1"]},{"metric":{"a":"2"},"value":[1,"1"]}]}`),
			checks.Unknown, "", "2 series, must return one",
		},
		"NaN": {
			answers(`{"resultType":"vector","result":[{"metric":{},"value":[1,"NaN"]}]}`), checks.Unknown, "",
			"must return a finite number",
		},
		"infinite value": {
			answers(`{"resultType":"scalar","result":[1,"+Inf"]}`), checks.Unknown, "", "must return a finite number",
		},
		"histogram": {
			answers(
				`{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"1","sum":"1","buckets":[[1,"0","1","1"]]}]}]}`),
			checks.Unknown, "", "must return a number",
		},
		"range vector": {
			answers(`{"resultType":"matrix","result":[]}`), checks.Unknown, "", "must return a scalar or a vector",
		},
		"string result": {
			answers(`{"resultType":"string","result":[1,"0.1"]}`), checks.Unknown, "", "unexpected value type",
		},
		"scalar with the wrong type": {answers(`{"resultType":"scalar","result":{}}`), checks.Unknown, "", "query"},
		"HTML page": {
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "<html>")
			}, checks.Unknown, "", "query",
		},
		"error from Prometheus": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"status":"error","errorType":"bad_data","error":"parse error"}`, 400)
		}, checks.Unknown, "", "parse error"},
		"unavailable endpoint": {
			func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "away", http.StatusServiceUnavailable)
			}, checks.Unknown, "", "503",
		},
		"million series":                    {millionSeries, checks.Unknown, "", "more than 1048576 bytes"},
		"endless response":                  {endless, checks.Unknown, "", "more than 1048576 bytes"},
		"response that exceeds the timeout": {hang, checks.Unknown, "", timedOut},
		"redirect is not followed": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, checks.Unknown, "", "query"},
		"query at the configured path": {answersQuery, checks.Success, "0.1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := w.measure(
				fleet.Check{
					Timeout: timeoutFor(c.text),
					PromQL: &fleet.PromQLCheck{
						Service: w.serve(c.serve),
						Path:    "/select/",
						Query:   "sum(rate(errors[5m]))",
						Max:     "0.25",
					},
				},
			)
			require.Equal(t, c.want, m.Verdict, m.Message)
			require.Equal(t, c.value, m.Value)
			require.Contains(t, m.Message, c.text)
			require.LessOrEqual(t, len(m.Message), bundle.MaxCheckMessageBytes)
			require.Equal(t, bundle.PrintableLine(m.Message), m.Message)
		})
	}
}

const scalarResult = `{"resultType":"scalar","result":[1,"0.2"]}`

// answersQuery is a handler that returns 0.1 for the expected query.
func answersQuery(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/select/api/v1/query" || r.FormValue("query") != "sum(rate(errors[5m]))" {
		http.NotFound(w, r)
		return
	}
	answers(`{"resultType":"scalar","result":[1,"0.1"]}`)(w, r)
}

func TestFailedQueryReturnsNoPreUpgradeValue(t *testing.T) {
	w := newWorld(t)
	query := func(serve http.HandlerFunc) string {
		c := fleet.Check{Name: "a", PromQL: &fleet.PromQLCheck{Service: w.serve(serve), Query: "up", Max: "1"}}
		return w.MeasureBefore(t.Context(), checks.Define([]fleet.Check{c}, nil, "")[0])
	}
	require.Equal(t, "0.25", query(answers(`{"resultType":"scalar","result":[1,"0.25"]}`)))
	require.Empty(t, query(answers(scalarResult+`,"warnings":["partial response"]`)))
	require.Empty(t, query(http.NotFound))
	require.Empty(t, query(answers(`{"resultType":"vector","result":[{"metric":{},"value":[1,"NaN"]}]}`)))
	require.Empty(t, query(answers(`{"resultType":"scalar","result":[1,"+Inf"]}`)))
}

func TestLatencyIsMeasuredBeforeAnUpgrade(t *testing.T) {
	w := newWorld(t)
	request := func(serve http.HandlerFunc) string {
		c := fleet.Check{Name: "a", HTTP: &fleet.HTTPCheck{Service: w.serve(serve)}}
		return w.MeasureBefore(t.Context(), checks.Define([]fleet.Check{c}, nil, "")[0])
	}
	latency, err := time.ParseDuration(request(func(http.ResponseWriter, *http.Request) {}))
	require.NoError(t, err)
	require.Less(t, latency, time.Minute)
	require.Empty(t, request(http.NotFound))
}
