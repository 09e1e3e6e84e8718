package store

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// details makes text of what registries say in detail of a refusal, such as the rights that are missing, in their own
// JSON: the error made of it would show a Go value.
type details struct{ http.RoundTripper }

// maxErrorBytes is how much of an answer is looked at, as much as goes into an error.
const maxErrorBytes = 8 << 10

// RoundTrip returns the answer with its details as text, and any other as it is.
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

// failing fails where reading failed before, and is empty otherwise.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// withTextDetails returns a registry's errors with the JSON of each detail as its text, and whatever is none as it is.
//
// Source: OCI distribution specification, Error Codes.
func withTextDetails(body []byte) []byte {
	var said struct {
		Errors []struct {
			Code    string          `json:"code"`
			Message string          `json:"message,omitempty"`
			Detail  json.RawMessage `json:"detail,omitempty"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &said) != nil {
		return body
	}
	changed := false
	for i, e := range said.Errors {
		if len(e.Detail) == 0 || e.Detail[0] != '{' && e.Detail[0] != '[' {
			continue
		}
		text, err := json.Marshal(string(e.Detail))
		if err != nil {
			return body
		}
		said.Errors[i].Detail, changed = text, true
	}
	if !changed {
		return body
	}
	shown, err := json.Marshal(said)
	if err != nil {
		return body
	}
	return shown
}
