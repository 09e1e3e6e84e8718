package scenario

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// The test uses random catalogs, requests, windows and settings. For each runtime, the publisher must either report the
// problem in the runtime's own row, or publish a bundle that this version's agent and each released agent accept. The
// runtime "valid" always gets a bundle.
func TestReleasedAgentsReadRandomBundles(t *testing.T) {
	suite.Long(t) // the short suite runs TestAgentsCanReadEveryResolvedBundle
	today, err := fleet.Build()
	must(t, err)
	agents := []string{today.Agent}
	for _, past := range releases(t) {
		agents = append(agents, programsAt(t, past.commit).Agent)
	}
	random := rand.New(rand.NewPCG(suite.Seed(t, 1), 0))
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	runProgram(t, 0, today.Publisher, "keys", "init", "--keys", keys)
	accepted, refused := 0, 0
	policy := filepath.Join(dir, "windows.json")
	must(t, os.WriteFile(policy, []byte(windowPolicy), 0o600))
	for n := range 25 {
		from, to := filepath.Join(dir, fmt.Sprint("from-", n)), store.LayoutScheme+filepath.Join(dir, fmt.Sprint("to-", n))
		runtimes := writeRandomFleet(t, random, from)
		output, _ := fleet.Run(t.Context(), today.Publisher, append([]string{
			"publish", "--from", from, "--to", to, "--keys", keys, "--allow-unresolved", "-o", "json",
			"--components", filepath.Join(checkout, "docs/example/components"),
			"--state", filepath.Join(dir, fmt.Sprint("state-", n)), "--maintenance-policy", policy,
		}, randomSettings(random)...)...)
		problems := problemsByRuntime(t, output)
		for _, runtime := range runtimes {
			for _, agent := range agents {
				answer, refusal := fleet.Run(t.Context(), agent, "verify", to, "--trust",
					filepath.Join(keys, "root.json"), "--runtime", runtime)
				switch {
				case refusal == 0:
					accepted++
				case refusal == 3:
					t.Errorf("catalog %d: %s refuses the bundle of %s: %s", n, agent, runtime, answer)
				case problems[runtime] == "" || runtime == validRuntime:
					t.Errorf("catalog %d: %s has no bundle, and its row has problem %q\n%s\n%s", n, runtime,
						problems[runtime], output, answer)
				default:
					refused++
				}
			}
		}
	}
	t.Logf("%d bundles were accepted, and %d runtimes got none", accepted, refused)
	if accepted <= refused {
		t.Error("most catalogs resulted in no bundle")
	}
}

// validRuntime requests only a valid module, and has a valid window.
const validRuntime = "valid"

// windowPolicy is a maintenance policy that also selects some of the random runtimes.
const windowPolicy = `{"rules": [{"match": {"plan": "a.*"}, "windows": [{"days": ["Sat"], "begin": "21:00:00+00:00",
"end": "00:00:00+00:00"}]}], "default": {"days": ["Sun"], "begin": "01:00:00+02:00", "end": "05:00:00+02:00"}}`

// problemsByRuntime returns the error of each runtime in the output of `publish -o json`.
func problemsByRuntime(t *testing.T, output string) map[string]string {
	t.Helper()
	begin, end := strings.Index(output, "["), strings.LastIndex(output, "\n]")
	if begin < 0 || end < begin {
		t.Fatalf("the publisher printed no rows: %s", output)
	}
	var rows []struct{ Runtime, Error string }
	if err := json.Unmarshal([]byte(output[begin:end+2]), &rows); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	problems := map[string]string{}
	for _, row := range rows {
		problems[row.Runtime] += row.Error
	}
	return problems
}

// randomAnnotations returns valid and invalid annotations for a Kyma.
func randomAnnotations(random *rand.Rand) map[string]any {
	all := map[string]any{}
	pick := func(name string, values ...string) {
		if value := values[random.IntN(len(values))]; value != "" && random.IntN(3) == 0 {
			all[name] = value
		}
	}
	weekly := `{"days":["Mon"],"begin":"21:00:00+00:00","end":"23:00:00+00:00"}`
	pick(v1beta2.AnnotationValues, "", "", fmt.Sprintf(`{"region":%q}`, strings.Repeat("é", 200)), `{"region":1}`, "{")
	pick(v1beta2.AnnotationMaintenanceWindows, "", "["+weekly+"]", "[]", "{", `[{"days":["Someday"]}]`,
		"["+strings.Repeat(weekly+",", 103)+weekly+"]", "["+strings.Repeat(weekly+",", 104)+weekly+"]",
		strings.Repeat("[", 70)+strings.Repeat("]", 70))
	pick(v1beta2.AnnotationAutonomy, "", "", "Catalog", "catalog", "All")
	pick(v1beta2.AnnotationReportDetails, "", "", "events", "events,logs", "secrets")
	pick(v1beta2.AnnotationAgentImage, "", "", "", "agent:latest", "agent@sha256:"+strings.Repeat("0a", 32))
	pick(v1beta2.AnnotationAgentRollbackFrom, "", "", "sha256:"+strings.Repeat("0b", 32), "all")
	return all
}

// writeRandomFleet writes random objects to a folder and returns the IDs of its runtimes. Some objects exceed the
// limits of agents.
func writeRandomFleet(t *testing.T, random *rand.Rand, dir string) (runtimes []string) {
	t.Helper()
	must(t, os.CopyFS(dir, onlyYAML{os.DirFS(filepath.Join(checkout, "docs/example"))}))
	write := func(name string, object map[string]any) {
		data, err := json.Marshal(object)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name+".yaml"), data, 0o600))
	}
	object := func(kind, name string, spec map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": v1beta2.GroupVersion.String(), "kind": kind,
			"metadata": map[string]any{"name": name, "namespace": "kcp-system"}, "spec": spec,
		}
	}
	pick := func(counts ...int) int { return counts[random.IntN(len(counts))] }
	modules := []string{"scaler", "unknown", strings.Repeat("m", 60)}
	for i := range pick(0, 1, 5) {
		name := "module-" + strings.Repeat(string(rune('a'+i)), 3)
		modules = append(modules, name)
		write("template-"+name, object("ModuleTemplate", name+"-1.0.0", map[string]any{
			"moduleName": name, "version": "1.0.0", "mandatory": random.IntN(4) == 0, "descriptor": map[string]any{},
			"data": map[string]any{
				"apiVersion": "sample.kyma-pull.dev/v1", "kind": "Sample", "metadata": map[string]any{"name": "default"},
				"spec": map[string]any{
					"nested": nested(pick(0, 20, 55, 57, 58, 59)), "text": strings.Repeat("x", pick(0, 10, 200_000, 300_000)),
				},
			},
		}))
		var channels []any
		for c := range pick(1, 4, 31, 32, 33) {
			channels = append(channels, map[string]any{"channel": fmt.Sprintf("c%c%c", 'a'+c/26, 'a'+c%26), "version": "1.0.0"})
		}
		write("meta-"+name, object("ModuleReleaseMeta", name, map[string]any{
			"moduleName": name, "ocmComponentName": "kyma-pull.dev/module/scaler", "channels": channels,
		}))
	}
	for i := range 3 {
		name := fmt.Sprint("runtime-", i)
		var asked []any
		for _, m := range modules {
			if random.IntN(2) == 0 {
				asked = append(asked, map[string]any{"name": m, "managed": random.IntN(4) != 0})
			}
		}
		kyma := object("Kyma", name, map[string]any{
			"channel": []string{"regular", "fast", "caa", "none"}[random.IntN(4)], "modules": asked,
		})
		kyma["metadata"].(map[string]any)["annotations"] = randomAnnotations(random) //nolint:forcetypeassert // set above
		write("kyma-"+name, kyma)
		runtimes = append(runtimes, name)
	}
	valid := object("Kyma", validRuntime, map[string]any{
		"channel": "regular", "modules": []any{map[string]any{"name": "scaler", "managed": true}},
	})
	valid["metadata"].(map[string]any)["annotations"] = map[string]any{ //nolint:forcetypeassert // set above
		v1beta2.AnnotationMaintenanceWindows: `[{"days":["Sat"],"begin":"21:00:00+00:00","end":"00:00:00+00:00"}]`,
	}
	write("kyma-"+validRuntime, valid)
	return append(runtimes, validRuntime)
}

func randomSettings(random *rand.Rand) (flags []string) {
	for _, flag := range []string{
		"--agent-autonomy=Catalog", "--agent-poll-interval=30s", "--runtime-namespace-label=istio-injection=enabled",
		"--mirror=docker.io=registry.example/mirror", "--image-pull-secret=login",
		"--agent-image=registry.example/agent:0.1.0@sha256:" + strings.Repeat("0a", 32),
	} {
		if random.IntN(2) == 0 {
			flags = append(flags, flag)
		}
	}
	return flags
}

func nested(depth int) any {
	var tree any = "leaf"
	for range depth {
		tree = map[string]any{"a": tree}
	}
	return tree
}

// onlyYAML hides the folder with components, which is passed with --components instead.
type onlyYAML struct{ fs.FS }

func (o onlyYAML) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(o.FS, name)
	var files []fs.DirEntry
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "module") {
			files = append(files, e)
		}
	}
	return files, err
}
