package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow contains the tested fields of a workflow. actionlint checks the other fields.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Needs       string            `json:"needs"`
		Permissions map[string]string `json:"permissions"`
		Strategy    struct {
			Matrix struct {
				Target []string `json:"target"`
			} `json:"matrix"`
		} `json:"strategy"`
		Steps []struct {
			Uses string `json:"uses"`
			Run  string `json:"run"`
		} `json:"steps"`
	} `json:"jobs"`
}

const matrixTarget = "${{ matrix.target }}"

// commands returns every command line of the workflow.
func (w workflow) commands() []string {
	var found []string
	for _, job := range w.Jobs {
		for _, step := range job.Steps {
			for line := range strings.Lines(step.Run) {
				if !strings.Contains(line, matrixTarget) {
					found = append(found, strings.TrimSpace(line))
					continue
				}
				for _, target := range job.Strategy.Matrix.Target {
					found = append(found, strings.TrimSpace(strings.ReplaceAll(line, matrixTarget, target)))
				}
			}
		}
	}
	return found
}

func TestWorkflowsRunOnlyMakeTargets(t *testing.T) {
	targets := makeTargets(t)
	for path, w := range workflows(t) {
		commands := w.commands()
		if len(commands) == 0 {
			t.Errorf("%s does not run any commands", path)
		}
		for _, command := range commands {
			if !runnable(command, targets) {
				t.Errorf("%s runs %q: use .ci/run or a Makefile target, which also run outside CI", path, command)
			}
		}
	}
}

func TestWorkflowCommandsMustBeKnownMakeTargets(t *testing.T) {
	for command, want := range map[string]bool{
		".ci/run": true, "make test": true, "make demo EXIT=1": true,
		"make": false, "make nothing": false, "make EXIT=1": false, "make test; curl example.com": false,
		"go test ./...": false,
	} {
		if got := runnable(command, []string{"test", "demo"}); got != want {
			t.Errorf("command %q: runnable returned %t, want %t", command, got, want)
		}
	}
}

func runnable(command string, targets []string) bool {
	words := strings.Fields(command)
	switch {
	case command == ".ci/run", strings.HasPrefix(command, "gh release create "): // publishes existing artifacts
		return true
	case len(words) < 2 || words[0] != "make" || !slices.Contains(targets, words[1]):
		return false
	}
	for _, word := range words[2:] {
		if !regexp.MustCompile(`^[A-Z_]+=[A-Za-z0-9]+$`).MatchString(word) {
			return false
		}
	}
	return true
}

// .ci/run and the workflow for changes must run the same steps. The first two steps in .ci/run prepare the machine.
func TestChangeWorkflowRunsTheCISteps(t *testing.T) {
	steps := ciSteps(t)
	steps = slices.DeleteFunc(steps, func(step string) bool {
		return step == "make prepare" || step == "make kind-nodes"
	})
	if !slices.Contains(steps, "make test") {
		t.Errorf(".ci/run does not call exactly make test: %q", steps)
	}
	commands := workflows(t)[".github/workflows/ci.yaml"].commands()
	slices.Sort(steps)
	slices.Sort(commands)
	if !slices.Equal(steps, commands) {
		t.Errorf(".ci/run has the steps\n%q\nand .github/workflows/ci.yaml\n%q", steps, commands)
	}
}

// ciSteps returns the make commands in .ci/run.
func ciSteps(t *testing.T) []string {
	t.Helper()
	var steps []string
	for _, step := range regexp.MustCompile(`(?m)^ *(?:step|background) ([a-z].*)$`).
		FindAllStringSubmatch(readFile(t, ".ci", "run"), -1) {
		steps = append(steps, "make "+step[1])
	}
	if len(steps) < 5 {
		t.Fatalf("found only %d steps in .ci/run: %v", len(steps), steps)
	}
	return steps
}

func TestCIStepsHaveTimeBudgets(t *testing.T) {
	var budgeted, targets []string
	for line := range strings.Lines(readFile(t, ".ci", "budgets")) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 2 || !regexp.MustCompile(`^[1-9]\d*$`).MatchString(fields[1]) {
			t.Errorf(".ci/budgets: line %q is not a step and a number", line)
		} else if fields[0] != "probe" {
			budgeted = append(budgeted, fields[0])
		}
	}
	for _, step := range ciSteps(t) {
		targets = append(targets, strings.Fields(step)[1])
	}
	slices.Sort(budgeted)
	slices.Sort(targets)
	if !slices.Equal(budgeted, targets) {
		t.Errorf(".ci/budgets has\n%q\nand .ci/run has the steps\n%q", budgeted, targets)
	}
}

func TestReadmeBeginsWithTheDemoAndTheTests(t *testing.T) {
	_, rest, found := strings.Cut(readFile(t, "README.md"), "```")
	block, after, closed := strings.Cut(rest, "```")
	if !found || !closed || block != "sh\nmake demo\nmake test\n" {
		t.Fatalf("README.md: the first code block is %q, want make demo and make test", block)
	}
	for _, column := range []string{"first run", "last line"} {
		if before, _, _ := strings.Cut(after, "```"); !strings.Contains(before, column) {
			t.Errorf("README.md lacks the %s of make demo and make test", column)
		}
	}
	for _, c := range []struct{ last, file string }{{"Press Ctrl-C to stop.", "integration/demo/main.go"},
		{"make test: passed", "Makefile"}} {
		if !strings.Contains(after, "`"+c.last+"`") || !strings.Contains(readFile(t, c.file), c.last) {
			t.Errorf("README.md and %s must both have the last line %q", c.file, c.last)
		}
	}
}

// CONTRIBUTING.md maps each folder to the test suites that a change needs.
func TestContributingMapsEveryFolderToItsSuite(t *testing.T) {
	_, section, found := strings.Cut(readFile(t, "CONTRIBUTING.md"), "| a change in | needs |\n|---|---|\n")
	if !found {
		t.Fatal("CONTRIBUTING.md has no table of suites")
	}
	table, _, _ := strings.Cut(section, "\n\n")
	targets := makeTargets(t)
	var listed []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			t.Fatalf("CONTRIBUTING.md: row %q must have two cells", line)
		}
		named := regexp.MustCompile("`([^`]+)`")
		for _, folder := range named.FindAllStringSubmatch(cells[1], -1) {
			listed = append(listed, folder[1])
			if len(tracked(t, strings.TrimSuffix(folder[1], "/")+"/**")) == 0 {
				t.Errorf("CONTRIBUTING.md: folder %s does not exist", folder[1])
			}
		}
		commands := named.FindAllStringSubmatch(cells[2], -1)
		if len(commands) == 0 {
			t.Errorf("CONTRIBUTING.md: row %q has no command", line)
		}
		for _, command := range commands {
			if !runnable(command[1], targets) {
				t.Errorf("CONTRIBUTING.md: the Makefile has no target for %q", command[1])
			}
		}
	}
	covered := func(file string) bool {
		return slices.ContainsFunc(listed, func(folder string) bool { return strings.HasPrefix(file, folder) })
	}
	for _, file := range tracked(t, "**/*.go") {
		if strings.Contains(file, "/") && !covered(file) {
			t.Errorf("CONTRIBUTING.md: the table of suites has no row for the folder of %s", file)
		}
	}
	// The row for a folder with long tests, or for its parent, must name a make target that runs long tests.
	for _, file := range tracked(t, "**/*_test.go") {
		if strings.HasPrefix(file, "hack/suite/") || strings.HasPrefix(file, "integration/layout/") ||
			!strings.Contains(readFile(t, file), "suite.Long(t)") {
			continue
		}
		ok := false
		for line := range strings.Lines(table) {
			for _, folder := range regexp.MustCompile("`([^`]+/)`").FindAllStringSubmatch(line, -1) {
				ok = ok || strings.HasPrefix(file, folder[1]) && strings.Contains(line, "make test-")
			}
		}
		if !ok {
			t.Errorf("CONTRIBUTING.md: %s has a long test, but no row for its folder names a make test- target",
				file)
		}
	}
}

// Only the jobs that publish a finished release have write permissions. The job that writes to the repository does not
// run the repository's code. The job that pushes images and charts can write only packages.
func TestWorkflowsHaveReadOnlyTokens(t *testing.T) {
	for path, w := range workflows(t) {
		if publish, ok := w.Jobs["publish"]; ok && path == ".github/workflows/release.yaml" {
			delete(publish.Permissions, "contents")
			for _, step := range publish.Steps {
				if strings.Contains(step.Run, "make") || strings.HasPrefix(step.Uses, "actions/checkout") {
					t.Errorf("%s: a job with write permission runs code of the repository", path)
				}
			}
		}
		if push, ok := w.Jobs["push"]; ok && path == ".github/workflows/release.yaml" {
			delete(push.Permissions, "packages")
			for _, step := range push.Steps {
				if step.Run != "" && step.Run != "make release-push" {
					t.Errorf("%s: a job with write permission for packages runs %q", path, step.Run)
				}
			}
		}
		if len(w.Permissions) == 0 {
			t.Errorf("%s does not set permissions, so its token would have the repository's default permissions", path)
		}
		granted := []map[string]string{w.Permissions}
		for _, job := range w.Jobs {
			granted = append(granted, job.Permissions)
			for _, step := range job.Steps {
				if step.Uses != "" && !regexp.MustCompile(`^actions/[a-z-]+@v\d+$`).MatchString(step.Uses) {
					t.Errorf("%s uses %s: use only GitHub's own actions by major version", path, step.Uses)
				}
			}
		}
		for _, permissions := range granted {
			for name, access := range permissions {
				if access != "read" && access != "none" {
					t.Errorf("%s: permission %s is %s, must be read or none", path, name, access)
				}
			}
		}
	}
}

func TestDependabotCoversEveryGoModule(t *testing.T) {
	var config struct {
		Version int `json:"version"`
		Updates []struct {
			Ecosystem   string   `json:"package-ecosystem"`
			Directories []string `json:"directories"`
		} `json:"updates"`
	}
	decode(t, filepath.Join(".github", "dependabot.yml"), &config)
	var modules []string
	for _, file := range tracked(t, "go.mod", "**/go.mod") {
		modules = append(modules, strings.TrimSuffix("/"+strings.TrimSuffix(file, "go.mod"), "/"))
	}
	modules[slices.Index(modules, "")] = "/"
	for _, update := range config.Updates {
		if update.Ecosystem != "gomod" {
			continue
		}
		slices.Sort(modules)
		slices.Sort(update.Directories)
		if !slices.Equal(modules, update.Directories) {
			t.Errorf("the modules are in\n%q\nbut dependabot updates\n%q", modules, update.Directories)
		}
		return
	}
	t.Error("dependabot does not update Go modules")
}

// GitHub ignores an invalid issue form.
func TestIssueFormsAreComplete(t *testing.T) {
	forms := tracked(t, ".github/ISSUE_TEMPLATE/*.yaml")
	if len(forms) == 0 {
		t.Fatal("no issue forms found")
	}
	for _, path := range forms {
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label string }
			}
		}
		decode(t, path, &form)
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s lacks its name, description or body", path)
		}
		for _, field := range form.Body {
			if !slices.Contains([]string{"input", "textarea", "dropdown", "checkboxes"}, field.Type) ||
				field.ID == "" || field.Attributes.Label == "" {
				t.Errorf("%s: a field of type %q lacks its id or label", path, field.Type)
			}
		}
	}
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	found := map[string]workflow{}
	for _, path := range tracked(t, ".github/workflows/*") {
		var w workflow
		decode(t, path, &w)
		found[path] = w
	}
	if len(found) == 0 {
		t.Fatal("no workflows found")
	}
	return found
}

// makeTargets returns the Makefile's documented targets.
func makeTargets(t *testing.T) []string {
	t.Helper()
	var targets []string
	for _, target := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `).FindAllStringSubmatch(readFile(t, "Makefile"),
		-1) {
		targets = append(targets, target[1])
	}
	return targets
}

// tracked returns the paths of files in the repository that match git's patterns, including uncommitted files.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	for i, pattern := range patterns {
		patterns[i] = ":(glob)" + pattern
	}
	command := exec.CommandContext(t.Context(), "git",
		append([]string{"ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--"},
			patterns...)...)
	command.Dir = root(t)
	output, err := command.Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	var paths []string
	for line := range strings.Lines(string(output)) {
		path := strings.TrimSpace(line)
		if _, err := os.Stat(filepath.Join(root(t), path)); err == nil { // git lists deleted files too
			paths = append(paths, path)
		}
	}
	return paths
}

func readFile(t *testing.T, elements ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), filepath.Join(elements...)))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readFile(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
