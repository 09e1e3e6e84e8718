package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

func refusingRegistry(t *testing.T, status int, headers ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestRefusedCredentialsErrorNamesTheFlag(t *testing.T) {
	from, keys := fleetFolder(t), keyFolder(t)
	module := filepath.Join(t.TempDir(), "module")
	write(t, filepath.Join(module, "config.yaml"),
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: kyma-system}\n")
	commands := map[string]string{
		"publish":     "publish --from " + from + " --to %s/fleet --keys " + keys,
		"publish dry": "publish --dry-run --from " + from + " --to %s/fleet --keys " + keys,
		"export": "export one --from %s/fleet --keys " + keys + " --output " +
			filepath.Join(t.TempDir(), "file.tar"),
		"component create": "component create example.org/module/mailer:1.2.3 --from " + module + " --to %s/components",
		"component show":   "component show example.org/module/mailer:1.2.3 --components %s/components",
	}
	for name, line := range commands {
		for kind, c := range map[string]struct {
			status  int
			headers []string
			want    string
		}{
			"registry without credentials": {
				http.StatusUnauthorized, []string{"WWW-Authenticate", `Basic realm="fleet"`},
				"set --registry-config to a docker config.json with a user and password",
			},
			"status 401 without a challenge": {
				http.StatusUnauthorized, nil, "set --registry-config to a docker config.json with a user and password",
			},
			"status 403": {
				http.StatusForbidden, nil, "set --registry-config to a docker config.json of another user",
			},
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				host := refusingRegistry(t, c.status, c.headers...)
				o := run(append(strings.Fields(fmt.Sprintf(line, host)), "--plain-http")...)
				if o.code != cli.ExitFailed || !strings.Contains(o.err, host) || !strings.Contains(o.err, c.want) {
					t.Errorf("got exit code %d: %s%s", o.code, o.out, o.err)
				}
			})
		}
	}
}
