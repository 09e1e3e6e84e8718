package bounded

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReadingAnOversizedBodyFails(t *testing.T) {
	tooLarge := errors.New("too large")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", len(r.URL.Path)))
	}))
	defer server.Close()
	client := &http.Client{Transport: Transport{Next: http.DefaultTransport, MaxBytes: 4, TooLarge: tooLarge}}
	for path, want := range map[string]error{"/": nil, "/123": nil, "/1234": tooLarge, "/123456789": tooLarge} {
		response, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if !errors.Is(err, want) || want == nil && len(body) != len(path) {
			t.Errorf("%s: read %d bytes with error %v, want error %v", path, len(body), err, want)
		}
		if _, err := response.Body.Read(make([]byte, 1)); want != nil && !errors.Is(err, want) {
			t.Errorf("%s: second read returned error %v, want %v", path, err, want)
		}
		response.Body.Close()
	}
}
