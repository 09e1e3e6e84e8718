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

func TestOnlyTheVersionOfTheChannelChanges(t *testing.T) {
	for name, c := range map[string]struct {
		file      string
		line      int
		to        string
		old, text string // part of the file and its replacement
	}{
		"block notation with comments": {
			meta, 2, "regular", "version: 1.0.0 # since May", "version: 2.0.0 # since May",
		},
		"the second of two documents": {
			meta + other, 13, "regular", "{channel: regular, version: 1.0.0}", "{channel: regular, version: 2.0.0}",
		},
		"the first of two documents": {
			meta + other, 2, "regular", "version: 1.0.0 # since May", "version: 2.0.0 # since May",
		},
		"JSON": {
			`{"kind": "ModuleReleaseMeta", "spec": {"channels": [{"channel": "fast", "version": "2.0.0"}, {"channel": "regular", "version": "1.0.0"}]}}`, 1, "regular",
			`"regular", "version": "1.0.0"`, `"regular", "version": "2.0.0"`,
		},
		"single quotes": {
			strings.Replace(meta, "1.0.0", "'1.0.0'", 1), 2, "regular", "'1.0.0'", "'2.0.0'",
		},
		"lines that end as Windows'": {
			strings.ReplaceAll(meta, "\n", "\r\n"), 2, "regular", "version: 1.0.0 #", "version: 2.0.0 #",
		},
		"letters that are many bytes": {
			strings.Replace(meta, "- channel: regular\n    version: 1.0.0",
				"- {description: für Größe, channel: regular, version: 1.0.0}", 1), 2, "regular", "version: 1.0.0}",
			"version: 2.0.0}",
		},
		"a channel that is new": {
			meta, 2, "slow", "    channel: fast\n", "    channel: fast\n  - version: \"2.0.0\"\n    channel: slow\n",
		},
		"a new channel of a file without an end of its last line": {
			strings.TrimSuffix(meta, "\n"), 2, "slow", "    channel: fast",
			"    channel: fast\n  - version: \"2.0.0\"\n    channel: slow",
		},
		"a new channel beside short ones": {
			"spec:\n  channels:\n  - {channel: fast, version: 2.0.0}\n  - {channel: beta, version: 3.0.0}\nmore: true\n", 1, "slow", "3.0.0}\n", "3.0.0}\n  - {channel: slow, version: 2.0.0}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Count(c.file, c.old) != 1 {
				t.Fatalf("%q is not once in\n%s", c.old, c.file)
			}
			got, p, err := Edit([]byte(c.file), c.line, "keda", "fast", c.to, c.to == "slow")
			if want := strings.Replace(c.file, c.old, c.text, 1); err != nil || string(got) != want || p.To != "2.0.0" {
				t.Errorf("%+v, %v, got\n%s\nwant\n%s", p, err, got, want)
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
		"the channel has it": {
			strings.Replace(meta, "1.0.0", "2.0.0", 1), "fast", "regular",
			`line 8: module keda: channel "regular": there is nothing to promote: it has version 2.0.0`,
		},
		"the channel has a newer one": {
			meta, "regular", "fast", `channel "fast": it has version 2.0.0, and 1.0.0 is older`,
		},
		"a channel that is not there": {
			meta, "slow", "regular",
			`line 8: module keda: channel "slow" has no version: the channels are regular, fast`,
		},
		"a channel that was not made": {
			meta, "fast", "reglar",
			`line 8: module keda: channel "reglar": the channel does not exist, only regular, fast: use --create to add it`,
		},
		"one channel": {meta, "fast", "fast", `channel "fast" is both`},
		"a channel without a version": {
			strings.Replace(meta, "    version: 1.0.0 # since May\n", "", 1), "fast", "regular",
			"has no field version: write one by hand",
		},
		"no channels": {
			"# nothing\nkind: ModuleReleaseMeta\n", "fast", "regular",
			"line 2: ModuleReleaseMeta of module keda: spec.channels: is required",
		},
		"a new channel on one line": {
			"# a\nspec: {channels: [{channel: fast, version: 2.0.0}]}\n", "fast", "regular", "write it by hand",
		},
		"a version of several lines": {
			strings.Replace(meta, "version: 1.0.0 # since May", "version: >-\n      1.0.0", 1), "fast", "regular",
			"write it by hand",
		},
		"a version that is a number": {
			strings.Replace(meta, `"2.0.0"`, `"2.1"`, 1), "fast", "regular", "write it by hand",
		},
		"a version with escapes": {
			strings.Replace(meta, "1.0.0", `"1.\u0030.0"`, 1), "fast", "regular", "write it by hand",
		},
		"a file with carriage returns as line breaks": {
			strings.ReplaceAll(meta, "\n", "\r"), "fast", "regular", "write it by hand",
		},
		"a file with Unicode line breaks": {
			strings.Replace(meta, "# since May", "# since May\u2028  # 2026", 1), "fast", "regular", "write it by hand",
		},
		"a file that cannot be parsed": {"a: [", "fast", "regular", "document 1: line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _, err := Edit([]byte(c.file), 2, "keda", c.from, c.to,
				strings.HasPrefix(name, "a new")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\n%s\nwant %s", err, got, c.want)
			}
		})
	}
	if _, _, err := Edit([]byte(strings.Replace(meta, "1.0.0", "2.0.0", 1)), 2, "keda", "fast", "regular",
		false); !errors.Is(err, ErrNothing) {
		t.Errorf("got %v", err)
	}
}

func TestMessageNamesTheVersions(t *testing.T) {
	p := Promotion{Module: "keda", Source: "fast", Channel: "regular", From: "1.0.0", To: "2.0.0"}
	want := "Promote keda to 2.0.0 in channel regular\n\nkeda, channel regular: 1.0.0 -> 2.0.0, as channel fast has " +
		"it\n\nSigned-off-by: Ada <ada@example.com>\n"
	if got := p.Message("Ada <ada@example.com>"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p.From = ""
	if got := p.Message("Ada <ada@example.com>"); !strings.Contains(got, "channel regular: (none) -> 2.0.0") {
		t.Errorf("got\n%s", got)
	}
}
