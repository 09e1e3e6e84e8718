package fleet

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

const anyAPIServer = ""

// writers are the packages that write a message with a phrase, in their own words.
var writers = map[string][]string{
	unreadReport:  {"../ingest"},
	leftOutWishes: {"../ingest"},

	"the agent is too old for ": {"../resolve"},
	"runtime id ":               {"../plan"},
	"its runtime is ":           {"../plan"},
	"the registry answers":      {"../../../../bundle/store", "../../controller"},
	"annotations: ":             {"../plan"},

	"image pull Secret ": {"../../controller"},

	"which the Kyma pins it to, cannot be had":                     {"../catalog"},
	"cannot be asked for without a ModuleReleaseMeta":              {"../catalog"},
	"stays as lifecycle-manager installed it":                      {"../resolve"},
	": is unknown: there is neither a ModuleReleaseMeta":           {"../catalog"},
	" has no version: ":                                            {"../catalog"},
	" has no ModuleTemplate: add ":                                 {"../catalog"},
	"there is no ModuleTemplate ":                                  {"../catalog"},
	" has two ModuleTemplates: remove ":                            {"../catalog"},
	": is not offered to this runtime: ":                           {"../catalog"},
	" is for the control plane and goes into its own cluster only": {"../resolve"},
	": is mandatory and installed without being asked for":         {"../catalog"},
	"component version not found":                                  {"../../components/component"},
	"of the signature policy covers it":                            {"../../components/signature"},
	"the policy's rule for ":                                       {"../../components/signature"},
	"so that no signature covers it":                               {"../../components/signature"},
	"the signature policy lets that one be unsigned":               {"../../publish"},
	", which is older":                                             {"../resolve"},
	": component ":                                                 {"../resolve"},

	"can only be changed by recreating it":                   {install},
	"there already and not made by this module":              {install},
	" already: remove it from one of both":                   {install},
	": grant it that, or remove the objects from the module": {install},
	" may not write ":                                    {install},
	" lacks a right: ":                                   {install},
	"exceeded quota":                                     {anyAPIServer},
	"is forbidden":                                       {anyAPIServer},
	"remove it from the module":                          {"../../../../skr-agent/internal/guard", "../../../../skr-agent/internal/install/images"},
	"the cluster does not know this kind":                {install},
	"content is not stored":                              {"../../../../skr-agent/internal/contentstore"},
	"stored content is broken":                           {"../../../../skr-agent/internal/contentstore"},
	": the next version waits: ":                         {"../../../../skr-agent/internal/core/report"},
	": cannot be installed: ":                            {"../../../../skr-agent/internal/core/report"},
	"ImagePullBackOff":                                   {anyAPIServer},
	"ErrImagePull":                                       {anyAPIServer},
	" was applied: ":                                     {install},
	" is applied in part, which is not undone":           {install},
	"not ready after ":                                   {install},
	"the module goes when its custom resources are gone": {install},

	"has no maintenance window ahead": {"../../../../skr-agent/internal/core/maintenance"},
}

const install = "../../../../skr-agent/internal/install"

// composed are phrases with a constant's value in them: the format that a package has, and the value.
var composed = map[string]struct{ folder, format, value string }{
	"metadata.annotations[kyma-pull.dev/pinned-versions]": {"../../../../apis/operator/v1beta2", "metadata.annotations[%s]", v1beta2.AnnotationPinnedVersions},
	"annotations[":                    {"../../../../apis/operator/v1beta2", "metadata.annotations[%s]", v1beta2.AnnotationPinnedVersions},
	"annotation kyma-pull.dev/":       {"../plan", "annotation %s: ", v1beta2.AnnotationMaintenanceWindows},
	"annotation kyma-pull.dev/images": {install, "annotation %s: ", v1beta2.AnnotationImages},
}

// literals returns the texts that the code of a package has, without those of its tests and its comments.
func literals(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	var texts []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					texts = append(texts, text)
				}
			}
			return true
		})
	}
	return texts
}

// Most messages arrive as words, of the agent or of a status: whoever words one anew changes the phrase with it.
func TestPhrasesAreThoseOfWhoeverWritesThem(t *testing.T) {
	read := map[string][]string{}
	writes := func(folder, words string) bool {
		if read[folder] == nil {
			read[folder] = literals(t, folder)
		}
		return slices.ContainsFunc(read[folder], func(text string) bool { return strings.Contains(text, words) })
	}
	all := []string{unreadReport, leftOutWishes}
	for _, phrases := range [][]phrase{publishFailures, sealFailures, resolveFailures, moduleFailures, moduleWarnings, windowMessages} {
		for _, p := range phrases {
			all = append(all, p.words)
		}
	}
	for _, words := range all {
		of, is := composed[words]
		if is && (!strings.Contains(fmt.Sprintf(of.format, of.value), words) || !writes(of.folder, of.format)) {
			t.Errorf("%s does not write %q by %q", of.folder, words, of.format)
		}
		if !is && len(writers[words]) == 0 {
			t.Errorf("say which package writes %q", words)
		}
		for _, folder := range writers[words] {
			if folder != anyAPIServer && !writes(folder, words) {
				t.Errorf("%s does not write %q", folder, words)
			}
		}
	}
	for words := range writers {
		if !slices.Contains(all, words) {
			t.Errorf("no situation is told by %q any more", words)
		}
	}
}
