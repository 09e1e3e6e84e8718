package strict

import (
	"strings"
	"testing"
)

func TestDangerousYAMLIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"alias bomb":                    {"a: &a [x,x]\nb: [*a,*a]", "line 1: anchors"},
		"alias":                         {"a: x\nb: *a", "unknown anchor"},
		"merge key":                     {"a:\n  <<: {b: 1}", "!!merge"},
		"duplicate key":                 {"a: 1\nb:\n  c: 1\n  c: 2", `line 4: key "c" appears twice`},
		"custom tag":                    {"a: !exec rm", "tag !exec"},
		"language-specific tag":         {"a: !!python/object:os.system rm", "tag !!python/object:os.system"},
		"tag with a custom prefix":      {"%TAG ! tag:example,2000:\n---\na: !x 1", "tag tag:example,2000:x"},
		"binary tag":                    {"a: !!binary aGk=", "tag !!binary"},
		"set tag":                       {"a: !!set {x}", "tag !!set"},
		"mapping with the tag null":     {"!!null {kind: Secret}", "tag !!null"},
		"mapping with the tag int":      {"a: !!int {b: c}", "tag !!int"},
		"anchor on null":                {"&a null", "line 1: anchors"},
		"collection as key":             {"? [a]\n: b", "a key must be a string"},
		"nesting deeper than the limit": {strings.Repeat("[", 100) + strings.Repeat("]", 100), "nested deeper"},
		"more documents than the limit": {strings.Repeat("a: 1\n---\n", 2001), "more than 2000 documents"},
		"more values than the limit":    {"[" + strings.Repeat("1,", 200_001) + "]", "more than 200000 values"},
		"invalid YAML":                  {"a: [", "document 1"},
		"invalid second document":       {"a: 1\n---\nb: {", "document 2"},
		"tab as indentation":            {"a:\n\tb: 1", "document 1"},
		"control characters":            {"\x00\x01", "document 1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckYAML([]byte(c.in), Limits{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestYAMLAliasesCountAtTheirExpandedSize(t *testing.T) {
	for in, want := range map[string]string{
		"a: &a {x: 1}\nb: {<<: *a, y: 2}":                  "",
		"a: &a {x: 1}\nb: {<<: [*a, {z: 1}]}":              "",
		"a: &a [1,2,3]\nb: [*a,*a,*a,*a]":                  "more than 20 values",
		"a: &a [*a]":                                       "more than 20 values",
		"a: &a abcdefghij\nb: [*a,*a,*a,*a,*a]":            "line 1: more than 50 bytes",
		"a: &a x\nb: {<<: *a}":                             "line 2: a merge key needs a mapping",
		"a: &a [{x: 1}]\nb: {<<: [*a]}":                    "line 2: a merge key needs a mapping",
		"a: &a {x: 1}\nb: {<<: *a, <<: *a}":                "key \"<<\" appears twice",
		"a: &a !exec x\nb: *a":                             "tag !exec",
		"a: &a {x: 1, x: 2}\nb: *a":                        "key \"x\" appears twice",
		"a: &a {x: 1}\nb: {y: 2, <<: *a}":                  "",
		"a: &a {x: 1}\nb: {c: {x: 2, <<: [*a]}}":           "line 2: the merge key overrides field b.c.x",
		"a: &a {x: 1, z: 2}\nb: {y: 2, <<: [*a,*a,*a,*a]}": "more than 20 values",
		"a: &a x\nb: {*a : y}":                             "",
		"a: &a [x]\nb: {*a : y}":                           "a key must be a string",
		"a: {b: {~: c}}":                                   "line 1: a key of field a.b.<null> is null",
		"a: [1, {b: +.inf}]":                               "line 1: field a.b: +.inf is not a number in JSON",
		"%YAML 1.2\n---\na: 1":                             "line 1 is the directive %YAML 1.2: remove this line",
		"a: !!merge x":                                     "tag !!merge",
		"a:\n\tb: 1":                                       "line 2 starts with a tab: indent with spaces",
	} {
		err := CheckYAML([]byte(in), Limits{Nodes: 20, ExpandedBytes: 50})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", in, err, want)
		}
	}
}

func TestOrdinaryYAMLIsAccepted(t *testing.T) {
	documents, err := ParseYAML(
		[]byte("# only a comment\n---\na: 1\n---\n---\nb: [x, {c: null}]\nd: 2001-01-01\ne: !!str 1\n"), Limits{})
	if err != nil || len(documents) != 2 {
		t.Errorf("got %d documents, error %v, want 2", len(documents), err)
	}
}

func TestMaximumNumberOfDocumentsIsAccepted(t *testing.T) {
	for _, in := range []string{"a: 1\n---\nb: 1", "a: 1\n---\nb: 1\n"} {
		if err := CheckYAML([]byte(in), Limits{Documents: 2}); err != nil {
			t.Errorf("%q: got error %v, want no error", in, err)
		}
		if err := CheckYAML([]byte(in), Limits{Documents: 1}); err == nil {
			t.Errorf("%q with one more document: got no error, want an error", in)
		}
	}
}

func FuzzYAML(f *testing.F) {
	f.Add([]byte("a: &a [x]\nb: *a"))
	f.Add([]byte("a: {b: [1, 2]}"))
	f.Fuzz(func(_ *testing.T, data []byte) { _ = CheckYAML(data, Limits{}) })
}
