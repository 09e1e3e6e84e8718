package chart

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRolesAndPortsPageListsChartPorts(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "security", "roles-and-ports.md"))
	require.NoError(t, err)
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(string(page), -1) {
		listed[row[1]] = true
	}
	opened := map[string]bool{}
	for _, golden := range []string{"kcp-publisher-full.golden", "kcp-publisher-ui.golden", "skr-agent-full.golden"} {
		rendered, err := os.ReadFile(filepath.Join("testdata", golden))
		require.NoError(t, err)
		for _, port := range regexp.MustCompile(`containerPort: (\d+)`).FindAllStringSubmatch(string(rendered), -1) {
			opened[port[1]] = true
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(opened)), slices.Sorted(maps.Keys(listed)))
}
