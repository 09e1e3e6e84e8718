package flagset

import (
	"os"
	"strings"
	"testing"
)

func TestAgentSettingsAreValidated(t *testing.T) {
	for name, c := range map[string]struct {
		flags SettingsFlags
		want  string // part of the error, or empty
	}{
		"a mirror":                {SettingsFlags{mirrors: []string{"docker.io=registry.example/hub"}}, ""},
		"a mirror without target": {SettingsFlags{mirrors: []string{"docker.io"}}, "must be FROM=TO"},
		"a mirror with a scheme": {
			SettingsFlags{mirrors: []string{"https://docker.io=registry.example"}}, "without schemes",
		},
		"two mirrors of a registry": {SettingsFlags{mirrors: []string{"a=b", "a=c"}}, "a already has a mirror"},
		"an image path": {
			SettingsFlags{imagePaths: []string{"Keda.operator.kyma-project.io=spec.images.*"}}, "",
		},
		"a mirror with an invalid target": {
			SettingsFlags{mirrors: []string{"docker.io=Registry Example"}}, "must be HOST or HOST/PATH",
		},
		"an image path with an empty name": {
			SettingsFlags{imagePaths: []string{"Keda=spec..image"}},
			`field "spec..image": must be names separated by dots`,
		},
		"a next registry location": {SettingsFlags{nextLocation: "registry.example:5000/fleet/"}, ""},
		"a next registry location with a scheme": {
			SettingsFlags{nextLocation: "https://registry.example/fleet"}, "next registry: location",
		},
		"a missing CA": {SettingsFlags{nextCA: "/nowhere"}, "--next-registry-ca: open /nowhere"},
		"an empty CA":  {SettingsFlags{nextCA: os.DevNull}, "/dev/null: the file is empty, must contain CA certificates"},
		"a CA that is not PEM": {
			SettingsFlags{nextCA: "settings_test.go"}, "next registry: CA: must be certificates in PEM",
		},
		"a namespace label":                 {SettingsFlags{labels: []string{"istio-injection=enabled"}}, ""},
		"a namespace label without a value": {SettingsFlags{labels: []string{"istio-injection"}}, "must be KEY=VALUE"},
		"a duplicate namespace label": {
			SettingsFlags{labels: []string{"istio-injection=enabled", "istio-injection=disabled"}}, "unique keys",
		},
		"an unsupported namespace label": {
			SettingsFlags{labels: []string{"team=a"}}, `namespace label "team": must be one of`,
		},
		"a pull Secret":                       {SettingsFlags{pullSecret: "kcp-secrets/pull"}, ""},
		"a pull Secret without a name":        {SettingsFlags{pullSecret: "kcp-secrets/"}, "must be [NAMESPACE/]NAME"},
		"a pull Secret with too many slashes": {SettingsFlags{pullSecret: "a/b/c"}, "must be [NAMESPACE/]NAME"},
		"a pull Secret with a reserved name": {
			SettingsFlags{pullSecret: "skr-agent-key"}, "the name is reserved for the agent",
		},
		"an image path without a kind": {
			SettingsFlags{imagePaths: []string{"=spec.image"}}, "must be KIND.GROUP=FIELD",
		},
		"Kyma labels": {
			SettingsFlags{kymaLabels: []string{"kyma-project.io/global-account-id", "kyma-project.io/subaccount-id"}},
			"",
		},
		"a Kyma label with a value": {
			SettingsFlags{kymaLabels: []string{"team=a"}}, `--kyma-labels: "team=a" is not a valid label key`,
		},
		"a reserved Kyma label": {
			SettingsFlags{kymaLabels: []string{"operator.kyma-project.io/skip-reconciliation"}},
			"is reserved in runtimes: remove it",
		},
		"too many Kyma labels": {
			SettingsFlags{kymaLabels: make([]string, maxKymaLabels+1)}, "--kyma-labels: 33 labels, must be at most 32",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.flags.Settings()
			if err == nil {
				_, err = c.flags.CopiedLabels()
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}
