package render

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// renderChart renders a chart as `helm install` would. It returns an error if the result is not reproducible.
func renderChart(in Input) ([]placedObject, error) {
	files, err := chartFiles(in.Content)
	if err != nil {
		return nil, in.wrapError(err)
	}
	found, err := in.reproducible(files)
	if err != nil {
		return nil, in.wrapError(err)
	}
	return found, nil
}

// unsortedPasses is the number of additional renderings for a chart that uses the template functions keys or values. A
// single additional rendering could have the same order by chance.
const unsortedPasses = 4

// reproducible renders a chart and returns an error if another rendering could return different objects.
//
// If the chart calls nondeterministic functions, it is rendered again with other text in place of these functions.
// The check has three known gaps: the function date with an invalid date, templates that are assembled at run time and
// passed to tpl, and actions with a body in a file that is not a valid template as a whole.
func (in Input) reproducible(files []file) ([]placedObject, error) {
	found, err := in.renderOnce(files, in.Values)
	if err != nil {
		return nil, err
	}
	use := findCalls(files, in.Values)
	if !use.canDiffer() {
		return found, nil
	}
	replaced := make([]file, len(files))
	for i, f := range files {
		replaced[i] = file{f.name, replaceNondeterministic(f.data)}
	}
	again, err := in.renderOnce(replaced, replaceNondeterministic(in.Values))
	if err != nil {
		return nil, fmt.Errorf("rendering succeeds or fails depending on %s: set a fixed value in the chart's values",
			use.describeAll())
	}
	if err := use.compare(found, again); err != nil {
		return nil, err
	}
	if use.isUnsorted() {
		for range unsortedPasses {
			if again, err = in.renderOnce(files, in.Values); err != nil {
				return nil, err
			}
			if err := use.compare(found, again); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// compare returns an error with the first object that differs between two renderings.
func (u usage) compare(found, again []placedObject) error {
	for i, f := range found {
		if i >= len(again) || f.place != again[i].place ||
			!reflect.DeepEqual(f.object.Object, restoreNames(again[i].object.Object)) {
			name, _, _ := strings.Cut(f.place, ", document")
			return fmt.Errorf(
				"%s, %s differs between renderings because of %s: set a fixed value in the chart's values", f.place,
				Name(f.object), u.describeCalls(name))
		}
	}
	if len(again) > len(found) {
		return errors.New("each rendering returns different objects because of " + u.describeAll() +
			": set a fixed value in the chart's values")
	}
	return nil
}

// restoreNames restores the names of nondeterministic functions in a rendered object's strings. It reverses
// replaceNondeterministic.
func restoreNames(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			v[key] = restoreNames(child)
		}
	case []any:
		for i, child := range v {
			v[i] = restoreNames(child)
		}
	case string:
		return standIns.Replace(v)
	}
	return value
}

var standIns = func() *strings.Replacer {
	var pairs []string
	for function, standIn := range nondeterministic {
		if standIn != "" {
			pairs = append(pairs, standIn, function)
		}
	}
	return strings.NewReplacer(pairs...)
}()

// replaceNondeterministic replaces calls to nondeterministic functions in a template with other text. It does not
// change invalid actions.
func replaceNondeterministic(text []byte) []byte {
	var calls []templateCall
	for _, t := range parseTemplate("", text) {
		calls = append(calls, t.calls...)
	}
	slices.SortFunc(calls, func(a, b templateCall) int { return a.offset - b.offset })
	var out []byte
	done := 0
	for _, call := range calls {
		standIn := nondeterministic[call.function]
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

// canDiffer reports whether a template calls a nondeterministic function, or tpl, which can execute any text as a
// template.
func (u usage) canDiffer() bool {
	for _, t := range u {
		if t.usesTpl || len(t.calls) > 0 {
			return true
		}
	}
	return false
}

func (u usage) isUnsorted() bool {
	for _, t := range u {
		if slices.ContainsFunc(t.calls, func(c templateCall) bool { return c.function == "keys" || c.function == "values" }) {
			return true
		}
	}
	return false
}

// describeCalls lists the nondeterministic functions for an error about a file. If the file calls none, it lists the
// calls in the whole chart.
func (u usage) describeCalls(name string) string {
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
		return u.describeAll()
	}
	return joinCalls(calls)
}

func (u usage) describeAll() string {
	var calls []string
	for _, t := range u {
		for _, c := range t.calls {
			calls = append(calls, c.String())
		}
	}
	if len(calls) == 0 {
		return "a template that is passed to tpl"
	}
	return joinCalls(calls)
}

func joinCalls(calls []string) string {
	slices.Sort(calls)
	calls = slices.Compact(calls)
	if len(calls) > 5 {
		calls = append(calls[:5], "more")
	}
	return strings.Join(calls, ", ")
}
