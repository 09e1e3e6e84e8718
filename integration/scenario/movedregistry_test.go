package scenario

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/registry"
)

// The test moves a fleet to a registry with a different host and CA, as docs/guides/move-the-registry.md describes. The
// operator does not access the runtime's cluster until the last step.
func TestRegistryMovesWithoutAccessToRuntimes(t *testing.T) {
	suite.Long(t) // the short suite runs the tests in package pull
	ctx := t.Context()
	f := newFleet(t, fleet.Options{Secured: true})
	must(t, f.Offer(ctx, scaler(f, "1.9.0"), scaler(f, "1.10.0")))
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})

	users := map[string]string{"publisher": "p", "agent": "a"}
	next, err := registry.Start(ctx, registry.Options{TLS: true, Users: users})
	must(t, err)
	t.Cleanup(func() {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	})
	nextCA := filepath.Join(f.Dir, "next-ca.pem")
	must(t, os.WriteFile(nextCA, next.CA(), 0o600))
	announce := []string{"--next-location", next.Host() + "/fleet", "--next-registry-ca", nextCA}

	must(t, f.RestartPublisher(announce...))
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))

	t.Log("The publisher moves and the old location stops responding.")
	auth := func(user string) string { return base64.StdEncoding.EncodeToString([]byte(user + ":" + users[user])) }
	both := fmt.Sprintf(`{"auths":{%q:{"auth":%q},%q:{"auth":%q}}}`, f.Registry.Host(), auth("publisher"), next.Host(),
		auth("publisher"))
	must(t, os.WriteFile(filepath.Join(f.Dir, "publisher.json"), []byte(both), 0o600))
	must(t, os.WriteFile(filepath.Join(f.Dir, "ca.pem"), append(f.Registry.CA(), next.CA()...), 0o600))
	f.Registry.Intercept(func(w http.ResponseWriter, request *http.Request) bool {
		if !strings.HasPrefix(request.URL.Path, "/v2/fleet/") {
			return false // the components' repositories stay available at the old location
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	must(t, f.RestartPublisher(append(announce, "--location", next.Host()+"/fleet")...))
	promote(t, f, "1.9.0")
	must(t, r.UntilState(ctx, "scaler", "1.9.0", v1beta2.StateReady))

	t.Log("A restarted agent uses the new location.")
	must(t, r.CrashAgent())
	promote(t, f, "1.10.0")
	must(t, r.UntilState(ctx, "scaler", "1.10.0", v1beta2.StateReady))

	t.Log("The runtime is enrolled with the new location and its agent restarts automatically.")
	secret := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, next.Host(), auth("agent"))
	must(t, os.WriteFile(filepath.Join(f.Dir, "agent.json"), []byte(secret), 0o600))
	must(t, r.EnrollAt(ctx, next.Host()+"/fleet", "--registry-config", filepath.Join(f.Dir, "agent.json"),
		"--registry-ca", filepath.Join(f.Dir, "ca.pem")))
	until(t, time.Minute, "the agent uses the location of its Secret", func() (bool, string) {
		log := r.Agent().Log()
		_, after, restarted := strings.Cut(log, "the bootstrap Secret changed, restarting")
		return restarted && strings.Contains(after, `"location":"`+next.Host()), string(last([]byte(log), 2000))
	})
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.10.0", v1beta2.StateWarning)) // newer than the channel's version
}
