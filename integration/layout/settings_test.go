package layout

import (
	"regexp"
	"strings"
	"testing"
)

var (
	settingsBlock = regexp.MustCompile("(?s)### Settings\n.*?```\n(.*?)```")
	settingLine   = regexp.MustCompile(`(?m)^  ([a-z0-9-]+)`)
	flagLine      = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)`)
	flagInText    = regexp.MustCompile(`--([a-z0-9-]+)`)
)

// TestDocsDoNotUseSettingsAsFlags prevents examples such as --events=failures, which the programs refuse: a setting
// needs --set.
func TestDocsDoNotUseSettingsAsFlags(t *testing.T) {
	const compatibility = "docs/kyma-compatibility.md" // lists lifecycle-manager's flags
	settings := map[string]bool{}
	for _, program := range []string{"kcp-publisher", "skr-agent"} {
		reference := readFile(t, "docs/reference/cli/"+program+".md")
		for _, block := range settingsBlock.FindAllStringSubmatch(reference, -1) {
			for _, setting := range settingLine.FindAllStringSubmatch(block[1], -1) {
				settings[setting[1]] = true
			}
		}
	}
	for _, program := range []string{"kcp-publisher", "skr-agent"} {
		for _, flag := range flagLine.FindAllStringSubmatch(readFile(t, "docs/reference/cli/"+program+".md"), -1) {
			delete(settings, flag[1])
		}
	}
	if !settings["events"] || !settings["deletion-timeout"] || settings["location"] {
		t.Fatalf("got settings %v", settings)
	}
	for _, page := range pages(t) {
		if page == compatibility || page == "CHANGELOG.md" || strings.HasPrefix(page, "docs/reference/cli/") {
			continue
		}
		for _, flag := range flagInText.FindAllStringSubmatch(readFile(t, page), -1) {
			if settings[flag[1]] {
				t.Errorf("%s: %s is a setting, not a flag: use `--set %s=VALUE`", page, flag[0], flag[1])
			}
		}
	}
}
