package render

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// unsettled are template functions whose result can differ for the same arguments: chance, the clock, and maps in Go's
// iteration order. Each has a stand-in for a second rendering, with a different result of the same form that names the
// function, so that it can be distinguished from text that only mentions the function. Functions without a stand-in
// always or nearly always return different results.
//
// The set is sprig's nonhermeticFunctions without those that the engine removes (env, expandenv, getHostByName), plus
// keys and values and all functions that generate a key, a certificate or a salt.
var unsettled = map[string]string{
	"now":                      "(toDate `2006-01-02` `1999-12-31`)",
	"ago":                      "printf `%v ago`",
	"randAlphaNum":             "printf `%v randAlphaNum`",
	"randAlpha":                "printf `%v randAlpha`",
	"randAscii":                "printf `%v randAscii`",
	"randNumeric":              "printf `%v randNumeric`",
	"randBytes":                "printf `%v randBytes`",
	"randInt":                  "biggest `randInt`",
	"shuffle":                  "printf `%v shuffle`",
	"uuidv4":                   "(print `uuidv4`)",
	"genPrivateKey":            "printf `%v genPrivateKey`",
	"genCA":                    "",
	"genCAWithKey":             "",
	"genSelfSignedCert":        "",
	"genSelfSignedCertWithKey": "",
	"genSignedCert":            "",
	"genSignedCertWithKey":     "",
	"htpasswd":                 "",
	"bcrypt":                   "",
	"encryptAES":               "",
	"keys":                     "",
	"values":                   "",
}

// unsorted is the number of further renderings of a chart with keys or values: two keys have the same order in every
// second rendering.
const passesOfUnsorted = 4

// reproducible renders a chart and refuses it if another rendering returns other objects. Results that templates
// compute and do not use, or put into a comment, are allowed.
//
// A chart without unsettled functions is rendered once. Other charts are rendered again with stand-ins in all
// templates, and in all files and values that can become templates. Two ways to escape are known, and both need a clock
// with a resolution of seconds: date with an invalid date, and a template that tpl assembles from parts.
func (in Input) reproducible(files []file) ([]placed, error) {
	found, err := in.pass(files, in.Values)
	if err != nil {
		return nil, err
	}
	use := survey(files, in.Values)
	if !use.doubtful() {
		return found, nil
	}
	replaced := make([]file, len(files))
	for i, f := range files {
		replaced[i] = file{f.name, replaceUnsettled(f.data)}
	}
	again, err := in.pass(replaced, replaceUnsettled(in.Values))
	if err != nil {
		return nil, fmt.Errorf("renders or fails depending on %s: put a fixed result into the values", use.all())
	}
	if err := use.compare(found, again); err != nil {
		return nil, err
	}
	if use.unsorted() {
		for range passesOfUnsorted {
			if again, err = in.pass(files, in.Values); err != nil {
				return nil, err
			}
			if err := use.compare(found, again); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// compare returns the first object that differs between two renderings, and the responsible function.
func (u usage) compare(found, again []placed) error {
	for i, f := range found {
		if i >= len(again) || f.place != again[i].place ||
			!reflect.DeepEqual(f.object.Object, unreplaced(again[i].object.Object)) {
			name, _, _ := strings.Cut(f.place, ", document")
			return fmt.Errorf("%s, %s: differs between renderings because of %s: put a fixed result into the values",
				f.place, Name(f.object), u.of(name))
		}
	}
	if len(again) > len(found) {
		return errors.New("returns other objects at every rendering because of " + u.all() +
			": put a fixed result into the values")
	}
	return nil
}

// unreplaced reverts stand-ins that were only quoted and never run.
func unreplaced(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			v[key] = unreplaced(child)
		}
	case []any:
		for i, child := range v {
			v[i] = unreplaced(child)
		}
	case string:
		return standIns.Replace(v)
	}
	return value
}

var standIns = func() *strings.Replacer {
	var pairs []string
	for function, standIn := range unsettled {
		if standIn != "" {
			pairs = append(pairs, standIn, function)
		}
	}
	return strings.NewReplacer(pairs...)
}()

// replaceUnsettled puts stand-ins into a template. It leaves text that does not parse unchanged.
func replaceUnsettled(text []byte) []byte {
	var calls []call
	for _, t := range parseTemplate("", text) {
		calls = append(calls, t.calls...)
	}
	slices.SortFunc(calls, func(a, b call) int { return a.offset - b.offset })
	var out []byte
	done := 0
	for _, call := range calls {
		standIn := unsettled[call.function]
		if standIn == "" {
			continue
		}
		out = append(append(out, text[done:call.offset]...), standIn...)
		done = call.offset + len(call.function)
	}
	if done == 0 {
		return text
	}
	return append(out, text[done:]...)
}

// usage is the result of a survey, by names of files and of named templates.
type usage map[string]template

// doubtful reports whether one rendering could be enough. Any text may be a template where tpl is used.
func (u usage) doubtful() bool {
	for _, t := range u {
		if t.usesTpl || len(t.calls) > 0 {
			return true
		}
	}
	return false
}

func (u usage) unsorted() bool {
	for _, t := range u {
		if slices.ContainsFunc(t.calls, func(c call) bool { return c.function == "keys" || c.function == "values" }) {
			return true
		}
	}
	return false
}

// of returns the functions that a file uses, directly or by other templates, or the functions of the whole chart if
// that is unclear.
func (u usage) of(name string) string {
	seen := map[string]bool{}
	var calls []string
	var visit func(string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, c := range u[name].calls {
			calls = append(calls, c.String())
		}
		for _, included := range u[name].includes {
			visit(included)
		}
	}
	visit(name)
	if len(calls) == 0 {
		return u.all()
	}
	return enumerated(calls)
}

func (u usage) all() string {
	var calls []string
	for _, t := range u {
		for _, c := range t.calls {
			calls = append(calls, c.String())
		}
	}
	if len(calls) == 0 {
		return "a template that tpl is given"
	}
	return enumerated(calls)
}

func enumerated(calls []string) string {
	slices.Sort(calls)
	calls = slices.Compact(calls)
	if len(calls) > 5 {
		calls = append(calls[:5], "more")
	}
	return strings.Join(calls, ", ")
}
