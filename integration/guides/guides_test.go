package guides

import (
	"reflect"
	"strings"
	"testing"
)

func TestCodeBlocksAreParsedWithSectionAndTestName(t *testing.T) {
	page := strings.ReplaceAll(`# Title

'''sh
first
'''

## A section

'''yaml
a: b
'''

'''sh test=one
## no heading
second
'''

'''sh test=one check
third
'''

## Another

'''sh others
fourth
'''
`, "'''", "```")
	blocks, err := parse(page)
	if err != nil {
		t.Fatal(err)
	}
	want := []Block{
		{Script: "first\n"},
		{Section: "A section", Name: "one", Script: "## no heading\nsecond\n"},
		{Section: "A section", Name: "one", Check: true, Script: "third\n"},
		{Section: "Another", Others: true, Script: "fourth\n"},
	}
	if !reflect.DeepEqual(blocks, want) {
		t.Errorf("got %+v", blocks)
	}
	if named := Named(blocks, "one"); !reflect.DeepEqual(named, want[1:3]) {
		t.Errorf("got %+v", named)
	}
}

func TestPageWithInvalidBlocksIsRejected(t *testing.T) {
	for page, want := range map[string]string{
		"no block":                       "no sh block",
		"```sh chek\nx\n```\n":           `"chek"`,
		"## A\n```sh test=\nx\n```\n":    `"test="`,
		"```yaml\nx: y\n```\n":           "no sh block",
		"## A\n```sh check b\nx\n```\n":  `section "A"`,
		"```sh test=a check\nx\n```\n":   "",
		"```sh\n```\n":                   "",
		"```sh test=a others\nx\n```\n":  "",
		"```sh check others\nx\n```\n\n": "",
	} {
		_, err := parse(page)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", page, err)
		}
	}
}
