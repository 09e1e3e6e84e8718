package store

import (
	"errors"
	"net/http"
	"net/url"

	"oras.land/oras-go/v2/registry/remote/auth"
)

// client sends requests to registries. It removes the query from URLs in errors, because the URL in a redirect to a
// storage bucket contains a short-lived credential in its query.
type client struct {
	*auth.Client
	chunked *chunkedHosts
}

// Do sends a request. If the response for a manifest or blob has no digest or length, Do adds them. If the registry
// refuses HEAD requests, Do sends a GET request.
func (c client) Do(request *http.Request) (*http.Response, error) {
	if isUpload(request) {
		return c.send(request, c.upload)
	}
	return c.send(request, c.Client.Do)
}

func (c client) send(request *http.Request, do func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	response, err := do(request)
	switch {
	case err != nil:
	case refusesHead(request, response):
		response, err = c.getInstead(request, response)
	case missingDigest(request, response):
		response, err = c.withDigest(request, response)
	case missingLength(request, response):
		response, err = c.withLength(request, response)
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		failed.URL = withoutQuery(failed.URL)
	}
	// oras prints the URL of response.Request in errors. After a redirect, this is the redirect's URL.
	if err == nil && response.Request != nil && response.Request.Response != nil {
		redirected := *response.Request
		at := *redirected.URL
		at.RawQuery = ""
		redirected.URL = &at
		response.Request = &redirected
	}
	return response, err
}

func withoutQuery(text string) string {
	at, err := url.Parse(text)
	if err != nil {
		return "an invalid URL"
	}
	at.RawQuery = ""
	return at.String()
}
