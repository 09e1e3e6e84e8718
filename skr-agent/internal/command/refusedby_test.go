package command

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func TestRefusedCredentialsErrorNamesTheFlag(t *testing.T) {
	f := newFleet(t)
	f.publish(time.Now(), f.module("keda", f.release), f.module("nats", f.release))
	commands := map[string]string{
		"verify": "verify %s/fleet --runtime berlin --trust " + f.trustFile,
		"import": "import " + f.export() + " --to %s/fleet --trust " + f.trustFile,
		"export-report": "export-report --location %s/fleet --runtime berlin --output " +
			filepath.Join(t.TempDir(), "report"),
	}
	for name, line := range commands {
		for kind, c := range map[string]struct {
			status  int
			headers http.Header
			want    string
		}{
			"no credentials": {
				http.StatusUnauthorized, http.Header{"Www-Authenticate": {`Basic realm="fleet"`}},
				"set --registry-config to a docker config.json with a user and password",
			},
			"status 401 without an authentication scheme": {
				http.StatusUnauthorized, nil, "set --registry-config to a docker config.json with a user and password",
			},
			"status 403": {
				http.StatusForbidden, nil, "set --registry-config to a docker config.json of another user",
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					maps.Copy(w.Header(), c.headers)
					w.WriteHeader(c.status)
				}))
				defer registry.Close()
				host := strings.TrimPrefix(registry.URL, "http://")
				code, output := execute(append(strings.Fields(fmt.Sprintf(line, host)), "--plain-http")...)
				if code != cli.ExitFailed || !strings.Contains(output, host) || !strings.Contains(output, c.want) {
					t.Errorf("got exit code %d with %s, want %d with %q", code, output, cli.ExitFailed, c.want)
				}
			})
		}
	}
}
