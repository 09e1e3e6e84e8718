package manager

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/cli"
)

type webhook struct {
	address, severity string
	reasons           []string
	headers, ca       string
}

// Values for events-severity, named as in Flux.
const (
	severityInfo  = "info"
	severityError = "error"
)

func (w *webhook) addSettings(settings *pflag.FlagSet) {
	settings.StringVar(&w.address, "events-addr", "",
		"URL to which events are also posted, in the format of Flux's events")
	settings.StringVar(&w.severity, "events-severity", severityInfo,
		"events to post: info (all events) or error (only Warnings)")
	settings.StringSliceVar(&w.reasons, "events-reasons", nil,
		"reasons of the events to post, separated by commas, such as RolloutStopped,RuntimeSilent; default: all")
	settings.StringVar(
		&w.headers,
		"events-headers",
		"",
		"file with one header per line, such as Authorization: Bearer …, read for each post; requires an events-addr "+
			"with https",
	)
	settings.StringVar(&w.ca, "events-ca", "", "additional CA certificates (PEM file) for events-addr")
}

func (w *webhook) check() error {
	if w.severity != severityInfo && w.severity != severityError {
		return cli.Usage(fmt.Errorf("events-severity %q: must be info or error", w.severity))
	}
	if w.address == "" {
		if w.headers != "" || w.ca != "" {
			return cli.Usage(errors.New("events-headers and events-ca require events-addr"))
		}
		return nil
	}
	address, err := url.Parse(w.address)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return cli.Usage(
			fmt.Errorf(
				"events-addr %q: must be a URL such as http://notification-controller.flux-system.svc.cluster.local./",
				w.address))
	}
	if w.headers == "" {
		return nil
	}
	if address.Scheme != "https" {
		return cli.Usage(
			errors.New(
				"events-headers is not supported over plain HTTP: use an events-addr that begins with https://"),
		)
	}
	if _, err := readHeaders(w.headers); err != nil {
		return cli.Usage(fmt.Errorf("events-headers: %w", err))
	}
	return nil
}

// isSelected reports whether the filters select an Event for posting.
func (w *webhook) isSelected(eventType, reason string) bool {
	if w.severity == severityError && eventType != corev1.EventTypeWarning {
		return false
	}
	return len(w.reasons) == 0 || slices.Contains(w.reasons, reason)
}

// configure sets up the client for Flux's Event recorder. The client retries a post up to four times.
func (w *webhook) configure(client *retryablehttp.Client, log logr.Logger) error {
	address, err := url.Parse(w.address)
	if err != nil {
		return cli.Usage(fmt.Errorf("events-addr: %w", err))
	}
	certificates := &tls.Config{MinVersion: tls.VersionTLS12}
	if w.ca != "" {
		pem, err := os.ReadFile(w.ca)
		if err != nil {
			return cli.Usage(fmt.Errorf("events-ca: %w", err))
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			return fmt.Errorf("read the system's certificates: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return cli.Usage(fmt.Errorf("events-ca %s contains no PEM certificate", w.ca))
		}
		certificates.RootCAs = pool
	}
	client.HTTPClient = store.NewClient(store.ClientOptions{
		Hosts: []string{address.Host}, TLS: certificates, Timeout: client.HTTPClient.Timeout,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return poster{next: next, headers: w.headers, log: log}
		},
	})
	// Ignore the response, because its Retry-After header could delay all queued events without limit.
	client.Backoff = func(least, most time.Duration, attempt int, _ *http.Response) time.Duration {
		return retryablehttp.DefaultBackoff(least, most, attempt, nil)
	}
	return nil
}

// poster is an http.RoundTripper that adds configured headers and logs refused requests.
type poster struct {
	next    http.RoundTripper
	headers string
	log     logr.Logger
}

// maxResponseBytes limits how much of a response body is read. Go can reuse the connection only after the whole body
// was read.
const maxResponseBytes = 4 << 10

func (p poster) RoundTrip(request *http.Request) (*http.Response, error) {
	if p.headers != "" {
		headers, err := readHeaders(p.headers)
		if err != nil {
			return nil, fmt.Errorf("events-headers: %w", err)
		}
		request = request.Clone(request.Context())
		for name, values := range headers {
			request.Header[name] = values
		}
	}
	response, err := p.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	_, _ = io.CopyN(io.Discard, response.Body, maxResponseBytes) // for a larger body, Close closes the connection
	err = response.Body.Close()
	response.Body = http.NoBody
	if code := response.StatusCode; code >= 400 && code < 500 && code != http.StatusTooManyRequests {
		p.log.Info("the receiver at events-addr refused an event", "status", response.Status)
	}
	return response, err
}

// maxHeadersBytes limits the size of the file with headers.
const maxHeadersBytes = 16 << 10

func readHeaders(path string) (textproto.MIMEHeader, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) > maxHeadersBytes {
		return nil, fmt.Errorf("%s is %d bytes, must be at most %d", path, len(data), maxHeadersBytes)
	}
	text := append(bytes.TrimSpace(data), "\r\n\r\n"...)
	headers, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader()
	if err != nil || len(headers) == 0 {
		// The error could contain a secret header, so do not return it.
		return nil, fmt.Errorf("%s must contain lines such as Authorization: Bearer TOKEN", path)
	}
	return headers, nil
}
