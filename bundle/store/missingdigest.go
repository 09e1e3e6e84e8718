package store

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const headerDigest = "Docker-Content-Digest"

// missingDigest reports whether the response for a manifest lacks the digest or the length. The OCI distribution
// specification does not require the header with the digest, and some proxies remove both headers.
func missingDigest(request *http.Request, response *http.Response) bool {
	_, reference, isManifest := strings.Cut(request.URL.Path, "/manifests/")
	if !isManifest || response.StatusCode != http.StatusOK {
		return false
	}
	switch request.Method {
	case http.MethodHead:
		named := digest.Digest(reference).Validate() == nil // the request already contains the digest
		return response.ContentLength < 0 || !named && response.Header.Get(headerDigest) == ""
	case http.MethodGet:
		return response.ContentLength < 0 // oras computes a missing digest from the response body
	}
	return false
}

// missingLength reports whether the response for an existing blob lacks the length.
func missingLength(request *http.Request, response *http.Response) bool {
	return request.Method == http.MethodHead && response.StatusCode == http.StatusOK && response.ContentLength < 0 &&
		strings.Contains(request.URL.Path, "/blobs/")
}

// refusesHead reports whether a registry does not support HEAD requests for a manifest or blob.
func refusesHead(request *http.Request, response *http.Response) bool {
	return request.Method == http.MethodHead &&
		(response.StatusCode == http.StatusMethodNotAllowed || response.StatusCode == http.StatusNotImplemented) &&
		(strings.Contains(request.URL.Path, "/manifests/") || strings.Contains(request.URL.Path, "/blobs/"))
}

// getInstead replaces the response to a refused HEAD request with the response to a GET request.
func (c client) getInstead(request *http.Request, refused *http.Response) (*http.Response, error) {
	if strings.Contains(request.URL.Path, "/manifests/") {
		return c.withDigest(request, refused)
	}
	_ = refused.Body.Close()
	again := request.Clone(request.Context())
	again.Method = http.MethodGet
	whole, err := c.Client.Do(again)
	if err != nil || whole.StatusCode != http.StatusOK {
		return whole, err
	}
	if whole.ContentLength < 0 {
		if err := countLength(whole); err != nil {
			_ = whole.Body.Close()
			return nil, err
		}
	}
	_ = whole.Body.Close() // the caller needs only the header
	whole.Body = http.NoBody
	return whole, nil
}

// countLength sets a response's length to the number of bytes in its body. It leaves the length unknown if the body is
// larger than the largest blob that this program reads.
func countLength(response *http.Response) error {
	length, err := io.Copy(io.Discard, io.LimitReader(response.Body, bundle.MaxLayerBytes+1))
	if err == nil && length <= bundle.MaxLayerBytes {
		response.ContentLength = length
	}
	return err
}

// withLength adds the length to the response for a blob. It sends a GET request, and takes the length from its response
// or counts the bytes. If the GET request does not return status 200, withLength returns the original response
// unchanged.
func (c client) withLength(request *http.Request, response *http.Response) (*http.Response, error) {
	again := request.Clone(request.Context())
	again.Method = http.MethodGet
	whole, err := c.Client.Do(again)
	if err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	defer whole.Body.Close()
	if whole.StatusCode != http.StatusOK {
		return response, nil
	}
	if whole.ContentLength < 0 {
		if err := countLength(whole); err != nil {
			_ = response.Body.Close()
			return nil, err
		}
	}
	response.ContentLength = whole.ContentLength
	return response, nil
}

// withDigest adds the digest and length to the response. It computes them from the manifest's bytes. After a HEAD
// request, it sends a GET request to read these bytes.
func (c client) withDigest(request *http.Request, response *http.Response) (*http.Response, error) {
	whole := response
	if request.Method == http.MethodHead {
		_ = response.Body.Close()
		again := request.Clone(request.Context())
		again.Method = http.MethodGet
		var err error
		if whole, err = c.Client.Do(again); err != nil || whole.StatusCode != http.StatusOK {
			return whole, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(whole.Body, bundle.MaxManifestBytes+1))
	if err != nil {
		_ = whole.Body.Close()
		return nil, err
	}
	rest := whole.Body
	if len(data) <= bundle.MaxManifestBytes {
		whole.ContentLength = int64(len(data))
		whole.Header.Set("Content-Length", strconv.Itoa(len(data)))
		whole.Header.Set(headerDigest, digest.FromBytes(data).String())
	}
	whole.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), rest), rest}
	return whole, nil
}
