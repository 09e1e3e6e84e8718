package measure

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// requestBuckets contains histogram buckets for registry requests, in seconds. Most requests take milliseconds, but
// large bodies can take a minute.
var requestBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// LabelsOfRequests are the labels on the metrics that Requests defines.
var LabelsOfRequests = []string{"method", "code"}

// Requests defines a histogram of request durations. It returns a function that wraps a transport to measure its
// requests.
//
// The measured time ends when the response header arrives. The label code is 2xx, 3xx, 4xx, 429 or 5xx, or "error"
// without a response.
func Requests(d Definition) func(http.RoundTripper) http.RoundTripper {
	d.Labels = LabelsOfRequests
	seconds := Histograms(d, requestBuckets...)
	return func(next http.RoundTripper) http.RoundTripper { return measuringTransport{next, seconds} }
}

type measuringTransport struct {
	next    http.RoundTripper
	seconds *prometheus.HistogramVec
}

func (m measuringTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := m.next.RoundTrip(request)
	m.seconds.WithLabelValues(methodLabel(request.Method), classLabel(response, err)).Observe(time.Since(began).Seconds())
	return response, err
}

func methodLabel(method string) string {
	switch method {
	case "":
		return http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete:
		return method
	}
	return "other"
}

func classLabel(response *http.Response, err error) string {
	switch {
	case err != nil || response == nil:
		return "error"
	case response.StatusCode == http.StatusTooManyRequests:
		return "429"
	case response.StatusCode < 100 || response.StatusCode > 599:
		return "other"
	}
	return strconv.Itoa(response.StatusCode/100) + "xx"
}
