package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/strvals"

	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

// commands returns every command line in a document, split into words.
func commands(t *testing.T, document string) [][]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", document))
	require.NoError(t, err)
	var found [][]string
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", "")) {
			line, _, _ = strings.Cut(line, ">")
			for command := range strings.SplitSeq(line, "|") {
				found = append(found, strings.Fields(strings.ReplaceAll(command, "'", "")))
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

func TestInstallationGuideCommandsAreValid(t *testing.T) {
	binaries, err := fleet.Build()
	require.NoError(t, err)
	seen := map[string]int{}
	for _, words := range slices.Concat(commands(t, "guides/install.md"), commands(t, "guides/rights.md")) {
		seen[words[0]]++
		line := strings.Join(words, " ")
		switch words[0] {
		case "kcp-publisher":
			output, code := fleet.Run(t.Context(), binaries.Publisher, append(slices.Clone(words[1:]), "--help")...)
			require.Zero(t, code, "%s\n%s", line, output)
			if words[1] == "registry" && words[2] == "credentials" {
				require.Equal(t, "_publisher", words[3], "other user names belong to runtimes, which must not publish")
			}
		case "helm":
			values := map[string]any{}
			require.NoError(t, strvals.ParseInto("location=registry.example/fleet,keys.secretName=keys", values))
			if words[2] == "skr-agent" {
				values = map[string]any{}
			}
			for i, word := range words {
				if word == "--set" {
					require.NoError(t, strvals.ParseInto(words[i+1], values), line)
				}
			}
			at := slices.Index(words, "--namespace")
			require.Positive(t, at, line)
			require.Equal(t, namespaces[words[2]], words[at+1], line)
			_, err := Release{Dir: filepath.Join("..", "..", words[3]), Name: words[2], Namespace: words[at+1],
				Values: values}.Render()
			require.NoError(t, err, line)
		case "make":
			makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
			require.NoError(t, err)
			require.Contains(t, string(makefile), "\n"+words[1]+": ", line)
		}
	}
	require.Greater(t, seen["helm"], 3)
	require.Greater(t, seen["kcp-publisher"], 1)
}

// The Secret in the guide must contain all files that the publisher reads, but not the root key.
func TestKeySecretInGuideContainsPublisherFiles(t *testing.T) {
	binaries, err := fleet.Build()
	require.NoError(t, err)
	keys := filepath.Join(t.TempDir(), "keys")
	output, code := fleet.Run(t.Context(), binaries.Publisher, "keys", "init", "--keys", keys)
	require.Zero(t, code, output)
	var taken []string
	for _, words := range commands(t, "guides/install.md") {
		for _, word := range words {
			if file, ok := strings.CutPrefix(word, "--from-file=keys/"); ok {
				taken = append(taken, file)
			}
		}
	}
	made, err := os.ReadDir(keys)
	require.NoError(t, err)
	for _, file := range made {
		require.Equal(t, file.Name() != "root.key", slices.Contains(taken, file.Name()), file.Name())
	}
	require.Len(t, taken, len(made)-1)
}
