package chart

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/charts"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// namespaces maps each chart to its installation namespace.
var namespaces = map[string]string{"kcp-publisher": "kcp-system", "skr-agent": "kyma-system"}

func release(t *testing.T, name string, values map[string]any) Release {
	t.Helper()
	return Release{
		Dir: filepath.Join("..", "..", "charts", name), Name: name, Namespace: namespaces[name], Values: values,
	}
}

// cases returns the releases in testdata. Each file CHART-CASE.values.yaml defines one release, whose key is
// CHART-CASE.
func cases(t *testing.T) map[string]Release {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.values.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	found := map[string]Release{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		values := map[string]any{}
		require.NoError(t, yaml.UnmarshalStrict(data, &values))
		name := strings.TrimSuffix(filepath.Base(file), ".values.yaml")
		chart := name[:strings.LastIndex(name, "-")]
		found[name] = release(t, chart, values)
	}
	return found
}

func render(t *testing.T, r Release) Rendered {
	t.Helper()
	rendered, err := r.Render()
	require.NoError(t, err)
	return rendered
}

func objectsOf(t *testing.T, r Release) []*unstructured.Unstructured {
	t.Helper()
	objects, err := render(t, r).Objects()
	require.NoError(t, err)
	return objects
}

// pick decodes the only object of a kind into the last argument.
func pick(t *testing.T, objects []*unstructured.Unstructured, kind string, into any) {
	t.Helper()
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
	require.GreaterOrEqual(t, at, 0, "no %s is rendered", kind)
	require.NoError(t,
		runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[at].Object, into, true))
}

// deployments returns all Deployments by name.
func deployments(t *testing.T, objects []*unstructured.Unstructured) map[string]appsv1.Deployment {
	t.Helper()
	found := map[string]appsv1.Deployment{}
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		var deployment appsv1.Deployment
		require.NoError(t,
			runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &deployment, true))
		found[deployment.Name] = deployment
	}
	require.NotEmpty(t, found)
	return found
}

func TestRenderedChartsMatchGoldenFiles(t *testing.T) {
	for name, r := range cases(t) {
		t.Run(name, func(t *testing.T) {
			rendered := render(t, r)
			var text bytes.Buffer
			for _, template := range slices.Sorted(maps.Keys(rendered.Templates)) {
				if slices.Contains([]string{"crds.yaml", "protection.yaml", "dashboards.yaml", "prometheusrule.yaml"},
					template) {
					continue // other tests compare these templates with their sources
				}
				fmt.Fprintf(&text, "# %s\n%s\n", template, strings.TrimSpace(rendered.Templates[template]))
			}
			fmt.Fprintf(&text, "# NOTES.txt\n%s\n", strings.TrimSpace(rendered.Notes))
			reviewed := regexp.MustCompile("(checksum/crds: ).*").ReplaceAllString(text.String(), "${1}of crds.yaml")
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(reviewed), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), reviewed,
				"run go test ./integration/chart -update and review the difference")
		})
	}
}

func TestHelmLintAcceptsTheCharts(t *testing.T) {
	for name, r := range cases(t) {
		t.Run(name, func(t *testing.T) {
			for _, message := range lint.All(r.Dir, r.Values, r.Namespace, true).Messages {
				if message.Severity > support.InfoSev {
					t.Error(message)
				}
			}
		})
	}
}

func TestChartsUseOnlyExistingFlags(t *testing.T) {
	binaries, err := fleet.Build()
	require.NoError(t, err)
	programs := map[string]string{"kcp-publisher": binaries.Publisher, "skr-agent": binaries.Agent}
	for name, r := range cases(t) {
		t.Run(name, func(t *testing.T) {
			for _, deployment := range deployments(t, objectsOf(t, r)) {
				container := deployment.Spec.Template.Spec.Containers[0]
				program := programs[filepath.Base(r.Dir)]
				// Flags are parsed before help is printed, so an unknown flag or an invalid value is an error.
				output, code := fleet.Run(t.Context(), program, append(slices.Clone(container.Args), "--help")...)
				require.Zero(t, code, output)
				output, code = fleet.Run(t.Context(), program,
					append(slices.Clone(container.Args), "--no-such-flag", "--help")...)
				require.Equal(t, 2, code, output)
			}
		})
	}
}

func TestFilesNamedInFlagsAreMounted(t *testing.T) {
	for name, r := range cases(t) {
		objects := objectsOf(t, r)
		for _, deployment := range deployments(t, objects) {
			t.Run(name+" "+deployment.Name, func(t *testing.T) {
				pod := deployment.Spec.Template.Spec
				volumes := map[string]corev1.Volume{}
				for _, v := range pod.Volumes {
					volumes[v.Name] = v
				}
				mounted := map[string]bool{}
				for _, m := range pod.Containers[0].VolumeMounts {
					require.Contains(t, volumes, m.Name)
					mounted[m.MountPath] = true
					delete(volumes, m.Name)
				}
				require.Empty(t, volumes, "volumes without a mount")
				for _, arg := range pod.Containers[0].Args {
					_, file, ok := strings.Cut(arg, "=/")
					if !ok {
						continue
					}
					file = "/" + file
					require.True(t, mounted[file] || mounted[filepath.Dir(file)],
						"no volume is mounted at the file of argument %s", arg)
					if filepath.Base(filepath.Dir(file)) == "config" {
						var config corev1.ConfigMap
						pick(t, objects, "ConfigMap", &config)
						require.Contains(t, config.Data, filepath.Base(file))
					}
				}
			})
		}
	}
}

// part returns the name suffix of the publisher component that an object belongs to, such as "-ui". It returns "" for
// the publisher itself.
func part(name string) string {
	for _, suffix := range []string{"-token-service", "-ui"} {
		if strings.HasSuffix(name, suffix) {
			return suffix
		}
	}
	return ""
}

// A selector must match only the pods of its own component.
func TestSelectorsMatchOnlyOwnPods(t *testing.T) {
	for name, r := range cases(t) {
		objects := objectsOf(t, r)
		for own, deployment := range deployments(t, objects) {
			labels := deployment.Spec.Template.Labels
			for _, o := range objects {
				path := map[string][]string{"Deployment": {"spec", "selector", "matchLabels"},
					"PodDisruptionBudget": {"spec", "selector", "matchLabels"}, "Service": {"spec", "selector"},
					"NetworkPolicy": {"spec", "podSelector", "matchLabels"}}[o.GetKind()]
				if path == nil {
					continue
				}
				selector, _, err := unstructured.NestedStringMap(o.Object, path...)
				require.NoError(t, err)
				require.NotEmpty(t, selector, o.GetName())
				selects := true
				for key, value := range selector {
					selects = selects && labels[key] == value
				}
				require.Equal(t, part(o.GetName()) == part(own), selects,
					"%s: whether %s %s selects the pods of Deployment %s", name, o.GetKind(), o.GetName(), own)
			}
		}
	}
}

func TestContainersAreRestricted(t *testing.T) {
	for name, r := range cases(t) {
		t.Run(name, func(t *testing.T) {
			for _, deployment := range deployments(t, objectsOf(t, r)) {
				pod := deployment.Spec.Template.Spec
				require.True(t, *pod.SecurityContext.RunAsNonRoot)
				require.NotZero(t, *pod.SecurityContext.RunAsUser)
				require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
				for _, c := range pod.Containers {
					require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
					require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
					require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
					require.Empty(t, c.SecurityContext.Capabilities.Add)
					require.NotEmpty(t, c.Resources.Requests)
					require.Contains(t, c.Resources.Limits, corev1.ResourceMemory)
				}
			}
		})
	}
}

// An agent with limited permissions must not be able to extend them through its own Deployment.
func TestSelfUpgradeWithLimitedRightsIsOptIn(t *testing.T) {
	for name, c := range map[string]struct {
		values map[string]any
		want   bool
	}{
		"agent with limited rights":                  {map[string]any{}, false},
		"agent with limited rights and self-upgrade": {map[string]any{"selfUpgrade": true}, true},
		"agent with all permissions":                 {map[string]any{"rbac": map[string]any{"clusterAdmin": true}}, true},
		"agent with all permissions, no self-upgrade": {
			map[string]any{"rbac": map[string]any{"clusterAdmin": true}, "selfUpgrade": false},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := objectsOf(t, release(t, "skr-agent", c.values))
			args := deployments(t, objects)["skr-agent"].Spec.Template.Spec.Containers[0].Args
			require.Equal(t, c.want, slices.Contains(args, "--deployment=skr-agent"))
			require.Equal(t, c.want, slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
				return o.GetName() == "skr-agent-self-upgrade"
			}))
		})
	}
}

// A network policy for HTTPS only would block an endpoint with HTTP or a different port.
func TestNetworkPoliciesAllowConfiguredPorts(t *testing.T) {
	for name, c := range map[string]struct {
		chart, values string
		want          []int32
	}{
		"plain HTTP": {"kcp-publisher", "registry: {plainHTTP: true}", []int32{80}},
		"Helm repositories": {
			"kcp-publisher", "helmRepositories: ['http://charts.example/a', 'oci://charts.example:5001/b']",
			[]int32{80, 5001},
		},
		"components":      {"kcp-publisher", "components: ['modules.example:8443/ocm']", []int32{8443}},
		"agent over HTTP": {"skr-agent", "registry: {plainHTTP: true}", []int32{80}},
		"mirrors":         {"skr-agent", "registry: {mirrors: ['docker.io=mirror.example:5000/hub']}", []int32{5000}},
	} {
		t.Run(name, func(t *testing.T) {
			values := map[string]any{}
			if c.chart == "kcp-publisher" {
				values = map[string]any{
					"location": "registry.example/fleet", "keys": map[string]any{"secretName": "keys"},
				}
			}
			require.NoError(t, yaml.Unmarshal([]byte(c.values), &values))
			var policy networkingv1.NetworkPolicy
			pick(t, objectsOf(t, release(t, c.chart, values)), "NetworkPolicy", &policy)
			open := map[int32]bool{}
			for _, rule := range policy.Spec.Egress {
				for _, port := range rule.Ports {
					open[port.Port.IntVal] = true
				}
			}
			for _, port := range append(c.want, 53, 8053, 5353, 443, 6443) {
				require.True(t, open[port], "egress to port %d is not allowed, only to %v", port, open)
			}
		})
	}
}

func TestChartsCreateNoSecrets(t *testing.T) {
	for name, r := range cases(t) {
		for _, o := range objectsOf(t, r) {
			require.NotEqual(t, "Secret", o.GetKind(), name)
		}
	}
}

func TestPublisherChartUpgradesCRDs(t *testing.T) {
	const values = "kcp-publisher-default"
	for keep, want := range map[bool]string{true: "keep", false: ""} {
		r := cases(t)[values]
		r.Values["crds"] = map[string]any{"keep": keep}
		rendered := map[string]map[string]any{}
		for _, o := range objectsOf(t, r) {
			if o.GetKind() == "CustomResourceDefinition" {
				require.Equal(t, want, o.GetAnnotations()["helm.sh/resource-policy"])
				unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "helm.sh/resource-policy")
				rendered[o.GetName()] = o.Object
			}
		}
		require.Equal(t, definitions(t, charts.PublisherCRDs), rendered)
	}
	loaded, err := loader.LoadDir(cases(t)[values].Dir)
	require.NoError(t, err)
	require.Empty(t, loaded.CRDObjects(), "Helm never upgrades files in crds/")
}

// The agent updates its own CRDs. The chart contains the same CRDs, so that users can create the first Kyma before
// the agent runs.
func TestAgentChartContainsAgentCRDs(t *testing.T) {
	loaded, err := loader.LoadDir(cases(t)["skr-agent-default"].Dir)
	require.NoError(t, err)
	brought := map[string]map[string]any{}
	for _, crd := range loaded.CRDObjects() {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(crd.File.Data, &object.Object))
		brought[object.GetName()] = object.Object
	}
	require.Equal(t, definitions(t, charts.AgentCRDs), brought)
}

func TestAgentChartProtectsTheAgentByDefault(t *testing.T) {
	r := cases(t)["skr-agent-default"]
	policy, err := os.ReadFile(filepath.Join(r.Dir, "policy", "protection.yaml"))
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(policy)), strings.TrimSpace(render(t, r).Templates["protection.yaml"]))
	// The policies do not depend on the roles that the values select.
	for _, rbac := range []map[string]any{{"clusterAdmin": true}, {"clusterAdmin": false}, {"create": false}} {
		for _, account := range []string{"", "modules"} {
			r.Values["rbac"], r.Values["modules"] = rbac, map[string]any{"serviceAccount": account}
			require.Equal(t, strings.TrimSpace(string(policy)),
				strings.TrimSpace(render(t, r).Templates["protection.yaml"]), "%v %s", rbac, account)
		}
	}
	r.Values["protection"] = map[string]any{"enabled": false}
	require.NotContains(t, render(t, r).Templates, "protection.yaml")
}

// Installations without Helm apply the files in rbac/.
func TestPlainManifestsGrantTheSameRightsAsTheCharts(t *testing.T) {
	for name, c := range map[string]struct {
		chart  string
		values map[string]any
		files  []string
	}{
		"the publisher": {
			"kcp-publisher", map[string]any{}, []string{"publisher", "operator", "metrics"},
		},
		"the publisher with unauthenticated metrics": {
			"kcp-publisher", map[string]any{"metrics": map[string]any{"auth": false}},
			[]string{"publisher", "operator"},
		},
		"the publisher with all features": {
			"kcp-publisher", map[string]any{
				"signaturePolicy": map[string]any{
					"apiVersion": "kyma-pull.dev/v1", "kind": "SignaturePolicy",
					"rules": []any{map[string]any{"components": "*", "required": false}},
				},
				"signatureKeysNamespace": "kcp-signatures",
				"webhook":                map[string]any{"enabled": true},
				"git":                    map[string]any{"url": "https://git.example/fleet.git"},
			}, []string{"publisher", "operator", "metrics", "signatures", "webhooks", "git"},
		},
		"the publisher with shards": {
			"kcp-publisher", map[string]any{"shards": 6}, []string{"publisher", "operator", "metrics", "shards"},
		},
		"the publisher with foreign finalizers": {
			"kcp-publisher", map[string]any{"rbac": map[string]any{"foreignFinalizers": true, "promotions": true}},
			[]string{"publisher", "operator", "metrics", "finalizers", "promotions"},
		},
		"the publisher with the web page": {
			"kcp-publisher",
			map[string]any{"ui": map[string]any{"enabled": true, "externalURL": "https://fleet.example",
				"sessionSecretName": "session"}}, []string{"publisher", "operator", "metrics", "ui"},
		},
		"the agent": {"skr-agent", map[string]any{}, []string{"agent", "checks"}},
		"the agent that adds details to its reports": {
			"skr-agent", map[string]any{"rbac": map[string]any{"reportDetails": true}},
			[]string{"agent", "checks", "report-details"},
		},
		"the agent with a Secret from the control plane": {
			"skr-agent", map[string]any{"rbac": map[string]any{"secrets": []any{"btp-credentials"}}},
			[]string{"agent", "checks", "secrets"},
		},
		"the agent with all permissions": {
			"skr-agent", map[string]any{
				"rbac": map[string]any{"clusterAdmin": true},
			}, []string{"agent", "checks", "all-modules", "self-upgrade"},
		},
		"the agent with an account for modules": {
			"skr-agent", map[string]any{
				"modules": map[string]any{"serviceAccount": "modules"},
			}, []string{"agent", "checks", "module-account"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := release(t, c.chart, maps.Clone(c.values))
			if c.chart == "kcp-publisher" {
				r.Values["location"], r.Values["keys"] = "registry.example/fleet", map[string]any{"secretName": "keys"}
			}
			plain := Rendered{Templates: map[string]string{}}
			for _, file := range c.files {
				data, err := os.ReadFile(filepath.Join(r.Dir, "rbac", file+".yaml"))
				require.NoError(t, err)
				plain.Templates[file] = string(data)
			}
			want, err := plain.Objects()
			require.NoError(t, err)
			want = slices.DeleteFunc(want, func(o *unstructured.Unstructured) bool {
				return o.GroupVersionKind().Group != "rbac.authorization.k8s.io"
			})
			var got []*unstructured.Unstructured
			for _, o := range objectsOf(t, r) {
				if o.GroupVersionKind().Group != "rbac.authorization.k8s.io" {
					continue
				}
				o.SetLabels(nil)
				if o.GetNamespace() == "" {
					o.SetName(strings.TrimPrefix(o.GetName(), "kcp-system-"))
				}
				if kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind"); kind == "ClusterRole" {
					role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
					require.NoError(t,
						unstructured.SetNestedField(o.Object, strings.TrimPrefix(role, "kcp-system-"), "roleRef",
							"name"))
				}
				got = append(got, o)
			}
			require.ElementsMatch(t, want, got)
		})
	}
}

func definitions(t *testing.T, system fs.FS) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	require.NoError(t, fs.WalkDir(system, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(system, path)
		require.NoError(t, err)
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(data, &object.Object))
		found[object.GetName()] = object.Object
		return nil
	}))
	require.NotEmpty(t, found)
	return found
}
