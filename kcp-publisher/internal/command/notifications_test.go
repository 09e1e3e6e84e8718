package command

import (
	"encoding/base64"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/keys"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/registryops/token"
)

func TestInvalidNotificationFlagsAreRefused(t *testing.T) {
	dir := keyFolder(t)
	empty := filepath.Join(t.TempDir(), "token")
	write(t, empty, "\n")
	for flags, want := range map[string]string{
		"--receiver-bind-address :0": "--receiver-bind-address and " +
			"--receiver-token: set both or neither",
		"--receiver-token /nowhere":                            "set both or neither",
		"--receiver-bind-address :0 --receiver-token /nowhere": "--receiver-token: stat /nowhere",
		"--receiver-bind-address :0 --receiver-token " + empty: "token has 0 characters, must have at least 22",
		"--notifications-bind-address :0 --set notifications-tls-key=k": "notifications-tls-certificate and " +
			"notifications-tls-key: set both or neither",
		"--set notifications-tls-certificate=c --set notifications-tls-key=k": "requires --receiver-bind-address",
		"--notifications-bind-address :0 --set notifications-connections=0": "notifications-connections 0: must be 1 to " +
			"1000000",
	} {
		o := run(append([]string{"run", "--location", "r.example/x", "--keys", dir}, strings.Fields(flags)...)...)
		if o.code != cli.ExitUsage || !strings.Contains(o.err, want) {
			t.Errorf("%s: got %+v", flags, o)
		}
	}
}

func TestEnrollIncludesTheNotificationPassword(t *testing.T) {
	dir := keyFolder(t)
	secrets, err := keys.Folder{Dir: dir}.TokenSecret()
	if err != nil {
		t.Fatal(err)
	}
	password, err := token.Password(secrets, "r-1", 2)
	if err != nil {
		t.Fatal(err)
	}
	derived := base64.StdEncoding.EncodeToString([]byte("r-1:" + password))
	config := filepath.Join(t.TempDir(), "config.json")
	write(t, config, `{"auths":{"registry.example":{"auth":"b3RoZXI6b3RoZXI="}}}`)
	for name, c := range map[string]struct {
		flags []string
		host  string
		want  string
	}{
		"separate notification host": {
			[]string{"--notifications-url", "https://kyma.example:8443/notifications"}, "kyma.example:8443", derived,
		},
		"separate notification host and registry credentials": {
			[]string{"--notifications-url", "https://kyma.example/notifications", "--registry-config", config},
			"kyma.example", derived,
		},
		"notifications from the registry's host": {
			[]string{"--notifications-url", "https://registry.example/notifications", "--registry-password"},
			"registry.example", derived,
		},
		"notification host with credentials in --registry-config": {
			[]string{"--notifications-url", "https://registry.example/notifications", "--registry-config", config},
			"registry.example", "b3RoZXI6b3RoZXI=",
		},
	} {
		out := mustRun(t,
			append([]string{"enroll", "r-1", "--location", "registry.example/fleet", "--keys", dir,
				"--registry-password-generation", "2"}, c.flags...)...)
		var secret corev1.Secret
		if err := yaml.Unmarshal([]byte(out), &secret); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Auths map[string]struct{ Auth string }
		}
		if err := json.Unmarshal([]byte(secret.StringData[corev1.DockerConfigJsonKey]), &got); err != nil {
			t.Fatal(err)
		}
		if got.Auths[c.host].Auth != c.want || secret.StringData["notifications"] != c.flags[1] {
			t.Errorf("%s: got Secret\n%s", name, out)
		}
	}
	for _, address := range []string{"kyma.example", "ftp://kyma.example", "https://a:b@kyma.example"} {
		if o := run("enroll", "r-1", "--location", "registry.example/fleet", "--keys", dir, "--notifications-url",
			address); o.code != cli.ExitUsage {
			t.Errorf("%s: got %+v", address, o)
		}
	}
}
