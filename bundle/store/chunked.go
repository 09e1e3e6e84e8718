package store

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"oras.land/oras-go/v2/registry/remote/errcode"
)

// oras uploads a blob with one PUT request. Some registries accept only chunked uploads: PATCH requests with the bytes,
// then a PUT request without a body. After a registry refuses an upload with one PUT request, the type client sends
// later uploads to this host as one chunk. oras has no function for chunked uploads.
//
// Source: OCI distribution specification, Pushing a blob in chunks.

// chunkedHosts contains the hosts that refused an upload with one PUT request. It is safe for concurrent use.
type chunkedHosts struct {
	mu    sync.Mutex // guards hosts
	hosts map[string]bool
}

// maxChunkedHosts limits the number of hosts in memory.
const maxChunkedHosts = 1_000

func newChunkedHosts() *chunkedHosts { return &chunkedHosts{hosts: map[string]bool{}} }

func (c *chunkedHosts) has(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hosts[host]
}

func (c *chunkedHosts) set(host string, isChunked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.hosts, host)
	if isChunked && len(c.hosts) < maxChunkedHosts {
		c.hosts[host] = true
	}
}

// isUpload reports whether a request uploads a blob's bytes.
func isUpload(request *http.Request) bool {
	return request.Method == http.MethodPut && request.ContentLength > 0 && request.URL.Query().Has("digest") &&
		!strings.Contains(request.URL.Path, "/manifests/")
}

// refusesUpload reports whether a registry that returned this status may accept the same blob in chunks.
func refusesUpload(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusLengthRequired,
		http.StatusUnsupportedMediaType, http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity,
		http.StatusNotImplemented:
		return true
	}
	return false
}

// isRefusedUpload reports whether err means that a registry refused a blob upload in one PUT request. The next attempt
// to upload the blob uses chunks.
func isRefusedUpload(err error) bool {
	var response *errcode.ErrorResponse
	return errors.As(err, &response) && response.Method == http.MethodPut && refusesUpload(response.StatusCode) &&
		response.URL != nil && !strings.Contains(response.URL.Path, "/manifests/")
}

// upload sends a blob's bytes, in one PUT request or in one chunk. After a refused upload, the caller must call upload
// again with a new upload session.
func (c client) upload(request *http.Request) (*http.Response, error) {
	host := request.URL.Host
	if !c.chunked.has(host) {
		response, err := c.Client.Do(request)
		if err == nil && refusesUpload(response.StatusCode) {
			c.chunked.set(host, true)
		}
		return response, err
	}
	response, err := c.uploadChunk(request)
	if err == nil && response.StatusCode != http.StatusCreated {
		c.chunked.set(host, false)
	}
	return response, err
}

// uploadChunk sends an upload's body in a PATCH request, and then completes the upload with a PUT request.
func (c client) uploadChunk(request *http.Request) (*http.Response, error) {
	chunk := request.Clone(request.Context())
	chunk.Method = http.MethodPatch
	query := chunk.URL.Query()
	blob := query.Get("digest")
	query.Del("digest")
	chunk.URL.RawQuery = query.Encode()
	chunk.Header.Set("Content-Range", fmt.Sprintf("0-%d", request.ContentLength-1))
	response, err := c.Client.Do(chunk)
	if err != nil || response.StatusCode != http.StatusAccepted {
		return response, err
	}
	_ = response.Body.Close()
	location, err := response.Location()
	if err != nil {
		return nil, fmt.Errorf("upload %s in chunks: %w", blob, err)
	}
	// oras also checks the first Location, so that no other host receives the credentials.
	if !sameHost(location, request.URL) || request.URL.Scheme == "https" && location.Scheme != "https" {
		return nil, fmt.Errorf("upload %s in chunks: the Location is %s://%s, must be %s://%s", blob, location.Scheme,
			location.Host, request.URL.Scheme, request.URL.Host)
	}
	location.Host = request.URL.Host // the registry can omit the default port
	query = location.Query()
	query.Set("digest", blob)
	location.RawQuery = query.Encode()
	last, err := http.NewRequestWithContext(request.Context(), http.MethodPut, location.String(), nil)
	if err != nil {
		return nil, err
	}
	if credentials := request.Header.Get("Authorization"); credentials != "" {
		last.Header.Set("Authorization", credentials)
	}
	last.Header.Set("Content-Type", "application/octet-stream")
	return c.Client.Do(last)
}
