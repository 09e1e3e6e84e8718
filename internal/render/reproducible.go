package render

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// unsettled are the functions of templates that need not give the same for the same arguments: chance, the clock, and
// maps in the order Go walks them in. To each belongs what stands in for it in a second rendering: something of the
// same form that certainly differs, and that names the function so that it can be told apart from text which only
// mentions it. Functions without a stand-in differ by themselves, always or nearly so.
//
// The set is sprig's nonhermeticFunctions without what the engine takes away (env, expandenv, getHostByName); keys and
// values are ours, and so is whatever makes a key, a certificate or a salt.
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

// unsorted say how often more a chart is rendered that uses them: two keys come in the same order every second time.
const passesOfUnsorted = 4

// reproducible renders a chart and refuses it when another rendering gives other objects. What templates compute and
// then do not use, or put into a comment, does no harm.
//
// A chart without unsettled functions is rendered once. Others are rendered again with stand-ins for them, wherever
// templates or what they could be made of stand: in files and in values. Two ways to escape are known, and both only
// with a clock that is printed no finer than by seconds: date, given something that is no date, and a template put
// together from pieces for tpl.
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
		return nil, fmt.Errorf("renders or not, depending on %s: give its result in the values", use.all())
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

// compare says which object of a rendering is another one in the next, and by which function.
func (u usage) compare(found, again []placed) error {
	for i, f := range found {
		if i >= len(again) || f.place != again[i].place ||
			!reflect.DeepEqual(f.object.Object, unreplaced(again[i].object.Object)) {
			name, _, _ := strings.Cut(f.place, ", document")
			return fmt.Errorf("%s, %s: comes out differently at every rendering, by %s: give its result in the values",
				f.place, Name(f.object), u.of(name))
		}
	}
	if len(again) > len(found) {
		return errors.New("gives other objects at every rendering, by " + u.all() + ": give its result in the values")
	}
	return nil
}

// unreplaced takes stand-ins back that were never run, only quoted.
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

// replaceUnsettled puts stand-ins into a template. What cannot be parsed is none.
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

// usage is what a survey found, by name of file and of named template.
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

// of names the functions that a file uses, also by way of other templates, or those of the whole chart if that is
// unclear.
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
