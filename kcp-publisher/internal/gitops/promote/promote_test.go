package promote

import (
	"errors"
	"strings"
	"testing"
)

const meta = `# who may have what
apiVersion: operator.kyma-project.io/v1beta2
kind: ModuleReleaseMeta
metadata: {name: keda}
spec:
  moduleName: keda
  channels: # as the team agreed
  - channel: regular
    version: 1.0.0 # since May
  - version: "2.0.0"
    channel: fast
`

const other = `---
kind: ModuleReleaseMeta
spec:
  moduleName: mail
  channels:
  - {channel: regular, version: 1.0.0}
  - {channel: fast, version: 2.0.0}
`

func TestPromotionChangesOnlyTheChannelsVersion(t *testing.T) {
	for name, c := range map[string]struct {
		file      string
		line      int
		to        string
		old, text string
	}{
		"block notation with comments": {
			meta, 2, "regular", "version: 1.0.0 # since May", "version: 2.0.0 # since May",
		},
		"ModuleReleaseMeta in the second document": {
			meta + other, 13, "regular", "{channel: regular, version: 1.0.0}", "{channel: regular, version: 2.0.0}",
		},
		"ModuleReleaseMeta in the first document": {
			meta + other, 2, "regular", "version: 1.0.0 # since May", "version: 2.0.0 # since May",
		},
		"file in JSON": {
			`{"kind": "ModuleReleaseMeta", "spec": {"channels": [{"channel": "fast", "version": "2.0.0"}, {"channel": "regular", "version": "1.0.0"}]}}`, 1, "regular",
			`"regular", "version": "1.0.0"`, `"regular", "version": "2.0.0"`,
		},
		"version in single quotes": {
			strings.Replace(meta, "1.0.0", "'1.0.0'", 1), 2, "regular", "'1.0.0'", "'2.0.0'",
		},
		"CRLF line endings": {
			strings.ReplaceAll(meta, "\n", "\r\n"), 2, "regular", "version: 1.0.0 #", "version: 2.0.0 #",
		},
		"multi-byte characters before the version": {
			strings.Replace(meta, "- channel: regular\n    version: 1.0.0",
				"- {description: für Größe, channel: regular, version: 1.0.0}", 1), 2, "regular", "version: 1.0.0}",
			"version: 2.0.0}",
		},
		"new channel": {
			meta, 2, "slow", "    channel: fast\n", "    channel: fast\n  - version: \"2.0.0\"\n    channel: slow\n",
		},
		"new channel in a file without a final line feed": {
			strings.TrimSuffix(meta, "\n"), 2, "slow", "    channel: fast",
			"    channel: fast\n  - version: \"2.0.0\"\n    channel: slow",
		},
		"new channel in a list of flow mappings": {
			"spec:\n  channels:\n  - {channel: fast, version: 2.0.0}\n  - {channel: beta, version: 3.0.0}\nmore: true\n", 1, "slow", "3.0.0}\n", "3.0.0}\n  - {channel: slow, version: 2.0.0}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Count(c.file, c.old) != 1 {
				t.Fatalf("the file must contain %q once:\n%s", c.old, c.file)
			}
			got, p, err := Edit([]byte(c.file), c.line, "keda", "fast", c.to, c.to == "slow")
			if want := strings.Replace(c.file, c.old, c.text, 1); err != nil || string(got) != want || p.To != "2.0.0" {
				t.Errorf("got promotion %+v, error %v, file\n%s\nwant\n%s", p, err, got, want)
			}
		})
	}
}

func TestInvalidPromotionFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		file     string
		from, to string
		want     string
	}{
		"target channel already has the version": {
			strings.Replace(meta, "1.0.0", "2.0.0", 1), "fast", "regular",
			`line 8: module keda: channel "regular": there is nothing to promote: it has version 2.0.0`,
		},
		"target channel has a newer version": {
			meta, "regular", "fast", `it has version 2.0.0, and runtimes do not downgrade to the older version 1.0.0`,
		},
		"source channel that does not exist": {
			meta, "slow", "regular",
			`line 8: module keda: channel "slow" has no version: the channels are regular, fast`,
		},
		"target channel that does not exist": {
			meta, "fast", "reglar",
			`line 8: module keda: channel "reglar": the channel does not exist: use one of regular, fast, or ` +
				`--create to create the channel`,
		},
		"source and target are the same channel": {meta, "fast", "fast", `channel "fast" is both`},
		"target channel without a version": {
			strings.Replace(meta, "    version: 1.0.0 # since May\n", "", 1), "fast", "regular",
			"the entry has no field `version`: add it manually",
		},
		"ModuleReleaseMeta without channels": {
			"# nothing\nkind: ModuleReleaseMeta\n", "fast", "regular",
			"line 2: ModuleReleaseMeta of module keda: spec.channels: is required",
		},
		"new channel in a list on one line": {
			"# a\nspec: {channels: [{channel: fast, version: 2.0.0}]}\n", "fast", "regular", "edit the file by hand",
		},
		"version on several lines": {
			strings.Replace(meta, "version: 1.0.0 # since May", "version: >-\n      1.0.0", 1), "fast", "regular",
			"edit the file by hand",
		},
		"version without quotes": {
			strings.Replace(meta, `"2.0.0"`, `"2.1"`, 1), "fast", "regular", "edit the file by hand",
		},
		"version with escapes": {
			strings.Replace(meta, "1.0.0", `"1.\u0030.0"`, 1), "fast", "regular", "edit the file by hand",
		},
		"file with carriage returns as line breaks": {
			strings.ReplaceAll(meta, "\n", "\r"), "fast", "regular", "edit the file by hand",
		},
		"file with Unicode line breaks": {
			strings.Replace(meta, "# since May", "# since May\u2028  # 2026", 1), "fast", "regular",
			"edit the file by hand",
		},
		"file that cannot be parsed": {"a: [", "fast", "regular", "document 1: line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _, err := Edit([]byte(c.file), 2, "keda", c.from, c.to,
				strings.HasPrefix(name, "new channel")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v and file\n%s\nwant error %s", err, got, c.want)
			}
		})
	}
	if _, _, err := Edit([]byte(strings.Replace(meta, "1.0.0", "2.0.0", 1)), 2, "keda", "fast", "regular",
		false); !errors.Is(err, ErrNothing) {
		t.Errorf("channel that already has the version: got error %v, want ErrNothing", err)
	}
}

func TestPromotionCommitMessageNamesTheVersions(t *testing.T) {
	p := Promotion{Module: "keda", Source: "fast", Channel: "regular", From: "1.0.0", To: "2.0.0"}
	want := "Promote keda to 2.0.0 in channel regular\n\nkeda, channel regular: 1.0.0 -> 2.0.0, promoted from " +
		"channel fast\n\nSigned-off-by: Ada <ada@example.com>\n"
	if got := p.Message("Ada <ada@example.com>"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p.From = ""
	if got := p.Message("Ada <ada@example.com>"); !strings.Contains(got, "channel regular: (none) -> 2.0.0") {
		t.Errorf("message of a new channel: got\n%s", got)
	}
}
