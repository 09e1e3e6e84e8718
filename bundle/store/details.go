package store

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// detailsTransport converts the "detail" field in registry errors from JSON to a string, because oras prints other
// types in Go syntax.
type detailsTransport struct{ http.RoundTripper }

// maxErrorBytes limits the size of an error response whose details are converted.
const maxErrorBytes = 8 << 10

func (d detailsTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := d.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusBadRequest || request.Method == http.MethodHead {
		return response, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
	rest := response.Body
	shown := withTextDetails(body)
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(shown), errorReader{err}, rest), rest}
	if len(shown) != len(body) && response.ContentLength >= 0 {
		response.ContentLength += int64(len(shown) - len(body))
	}
	return response, nil
}

// errorReader is an empty reader that returns err, or io.EOF if err is nil.
type errorReader struct{ err error }

func (f errorReader) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// withTextDetails returns the body of a registry's error response with each "detail" field as a string. It returns any
// other body unchanged.
//
// Source: OCI distribution specification, Error Codes.
func withTextDetails(body []byte) []byte {
	var answer struct {
		Errors []struct {
			Code    string          `json:"code"`
			Message string          `json:"message,omitempty"`
			Detail  json.RawMessage `json:"detail,omitempty"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return body
	}
	changed := false
	for i, e := range answer.Errors {
		if len(e.Detail) == 0 || e.Detail[0] != '{' && e.Detail[0] != '[' {
			continue
		}
		text, err := json.Marshal(string(e.Detail))
		if err != nil {
			return body
		}
		answer.Errors[i].Detail, changed = text, true
	}
	if !changed {
		return body
	}
	shown, err := json.Marshal(answer)
	if err != nil {
		return body
	}
	return shown
}
