package store

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// details converts the JSON details of a registry's errors to text, because oras would print them as a Go value.
type details struct{ http.RoundTripper }

// maxErrorBytes limits the bytes of a response in an error.
const maxErrorBytes = 8 << 10

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

// failing is a reader without data that returns err.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// withTextDetails returns a registry's errors with the JSON of each detail as a string. Other bodies stay unchanged.
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
