package store

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// details converts the details of a registry's errors, such as missing permissions, from JSON to text. oras would print
// the details as a Go value.
type details struct{ http.RoundTripper }

// maxErrorBytes is the number of bytes of a response that become part of an error.
const maxErrorBytes = 8 << 10

// RoundTrip returns an error response with its details as text, and other responses unchanged.
func (d details) RoundTrip(request *http.Request) (*http.Response, error) {
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
	}{io.MultiReader(bytes.NewReader(shown), failing{err}, rest), rest}
	if len(shown) != len(body) && response.ContentLength >= 0 {
		response.ContentLength += int64(len(shown) - len(body))
	}
	return response, nil
}

// failing is a reader without data. It returns err, or io.EOF if err is nil.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// withTextDetails returns a registry's errors with the JSON of each detail as a string, and other bodies unchanged.
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
