package bounded

import (
	"io"
	"net/http"
)

// Transport limits the size of response bodies. Reading a larger body returns an error instead of truncated data.
type Transport struct {
	Next http.RoundTripper
	// MaxBytes limits each body. TooLarge is the error for a larger body.
	MaxBytes int64
	TooLarge error
}

// RoundTrip sends the request and limits the response body.
func (t Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.Next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{NewReader(response.Body, t.MaxBytes, t.TooLarge), response.Body}
	return response, nil
}

// NewReader returns a reader for at most maxBytes bytes from source. If source has more bytes, Read returns the error
// tooLarge instead of io.EOF.
func NewReader(source io.Reader, maxBytes int64, tooLarge error) io.Reader {
	return &reader{source, maxBytes, tooLarge}
}

type reader struct {
	source    io.Reader
	remaining int64
	tooLarge  error
}

func (r *reader) Read(p []byte) (int, error) {
	if r.remaining < 0 {
		return 0, r.tooLarge
	}
	if int64(len(p)) > r.remaining+1 {
		p = p[:r.remaining+1]
	}
	n, err := r.source.Read(p)
	if r.remaining -= int64(n); r.remaining < 0 {
		return n, r.tooLarge
	}
	return n, err
}
