package store

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRegistryErrorDetailsAreShownAsText(t *testing.T) {
	for body, want := range map[string]string{
		`{"errors":[{"code":"DENIED","message":"access is denied","detail":[{"Type":"repository","Action":"push"}]}]}`: `denied: access is denied: [{"Type":"repository","Action":"push"}]`,
		`{"errors":[{"code":"DENIED","message":"access is denied","detail":"at noon"}]}`:                               "denied: access is denied: at noon",
		`{"errors":[{"code":"DENIED"}]}`: "403: denied",
		"no JSON":                        "403: Forbidden",
		strings.Repeat(" ", 9<<10):       "403: Forbidden",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(body))
		}))
		registries, err := NewRegistries(Access{NoRetry: true})
		if err != nil {
			t.Fatal(err)
		}
		repository, err := registries.Repository(strings.TrimPrefix(server.URL, "http://") + "/fleet")
		if err != nil {
			t.Fatal(err)
		}
		_, err = Tags(t.Context(), repository)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got error %v, want %s", body, err, want)
		}
		server.Close()
	}
}
