package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// CheckStreamURL returns an error if Stream cannot open the URL. The URL must not contain credentials, because it is
// logged.
func CheckStreamURL(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || !slices.Contains([]string{"http", "https"}, parsed.Scheme) || parsed.Hostname() == "" ||
		parsed.User != nil || parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" {
		return errors.New("must be https://HOST[:PORT]/PATH without credentials, query or fragment")
	}
	return nil
}

// ErrOtherReplica is the error that Stream returns if another server replica sends the runtime's events. A new
// connection can reach that replica.
var ErrOtherReplica = errors.New("another replica sends the events of this runtime")

// Stream opens a stream of server-sent events. The stream ends when the context ends. It sends the credentials for the
// URL's host. It does not follow redirects.
func (r *Registries) Stream(ctx context.Context, address string) (io.ReadCloser, error) {
	if err := CheckStreamURL(address); err != nil {
		return nil, fmt.Errorf("URL of notifications: %w", err) // omit the URL, which can contain credentials
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	host := request.URL.Host
	if request.URL.Scheme == "http" && !r.plainHTTP && !isLoopback(host) {
		return nil, fmt.Errorf("%s: credentials are not sent over plain HTTP: use https, or set --plain-http", address)
	}
	r.renew(time.Now())
	credential, err := r.credential(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("credentials for %s: %w", host, err)
	}
	if credential.Username == "" || credential.Password == "" {
		return nil,
			fmt.Errorf(
				"no user and password for %s: add them to the docker config.json, as `kcp-publisher enroll "+
					"--notifications-url` does", host)
	}
	request.SetBasicAuth(credential.Username, credential.Password)
	request.Header.Set("Accept", bundle.NotificationsMediaType)
	request.Header.Set("Accept-Encoding", "identity") // compression could delay events in a buffer
	r.egress.allowHost(host, true)
	client := &http.Client{
		Transport: r.egress, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") == "1":
		err = fmt.Errorf("GET %s: %w", address, ErrOtherReplica)
	case response.StatusCode != http.StatusOK:
		err = fmt.Errorf("GET %s: %d %s", address, response.StatusCode, http.StatusText(response.StatusCode))
	case kind != bundle.NotificationsMediaType:
		err = fmt.Errorf("GET %s: the response has media type %q, must be %s", address,
			bundle.Bounded(kind, bundle.MaxMessageBytes), bundle.NotificationsMediaType)
	default:
		return response.Body, nil
	}
	return nil, errors.Join(err, response.Body.Close())
}
