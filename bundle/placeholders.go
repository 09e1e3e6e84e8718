package bundle

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

var identityFields = []string{"apiVersion", "kind", "metadata"}

// SubstituteObject replaces the placeholders in an object, in place. It returns an error for placeholders in
// apiVersion, kind or metadata.
func (v ModuleValues) SubstituteObject(object map[string]any) error {
	if len(v) == 0 {
		return nil
	}
	p := placeholders{value: v.valueOf}
	for field, value := range object {
		if slices.Contains(identityFields, field) {
			if hasPlaceholder(value) {
				return fmt.Errorf("%s: value placeholders are not allowed in %s", field,
					strings.Join(identityFields, ", "))
			}
			continue
		}
		next, err := replaceStrings(value, p.replace)
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		object[field] = next
	}
	return nil
}

// Substitute replaces the placeholders in all strings of a decoded JSON or YAML tree, in place. It does not change map
// keys. A placeholder inside a substituted value stays unchanged.
func (v ModuleValues) Substitute(tree map[string]any) error {
	if len(v) == 0 {
		return nil
	}
	p := placeholders{value: v.valueOf}
	_, err := replaceStrings(tree, p.replace)
	return err
}

func (v ModuleValues) valueOf(ref ValueRef) (any, error) {
	value, listed := v[string(ref)]
	switch {
	case !listed:
		return nil, fmt.Errorf("value %s is not listed in annotation %s of the ModuleTemplate", Quote(string(ref),
			maxQuotedBytes), v1beta2.AnnotationUsesValues)
	case value == nil:
		return nil, fmt.Errorf("value %s is not defined", ref.Name())
	}
	return ref.convert(*value)
}

// SampleValues returns a sample value for each reference. Callers use the samples to check a document without a
// runtime's values. A reference without a type gets its own placeholder as its value, so text stays unchanged.
func SampleValues(refs []ValueRef) ModuleValues {
	samples := ModuleValues{}
	for _, ref := range refs {
		sample := placeholderStart + string(ref) + placeholderEnd
		if as, known := ref.valueType(); known {
			sample = as.sample
		}
		samples[string(ref)] = &sample
	}
	return samples
}

// FindValueRefs returns the references in all strings of a decoded JSON or YAML tree, sorted. It returns an error for a
// placeholder that agents would refuse.
func FindValueRefs(tree map[string]any) ([]ValueRef, error) {
	var refs []ValueRef
	p := placeholders{value: func(ref ValueRef) (any, error) {
		refs = append(refs, ref)
		return "", ref.Check()
	}}
	_, err := replaceStrings(tree, func(text string) (any, error) {
		_, err := p.replace(text)
		return text, err
	})
	slices.Sort(refs)
	return slices.Compact(refs), err
}

// replaceStrings calls replace for each string in a decoded JSON or YAML tree and stores the result in place of the
// string. The error names the field.
func replaceStrings(node any, replace func(string) (any, error)) (any, error) {
	switch node := node.(type) {
	case string:
		return replace(node)
	case []any:
		for i := range node {
			next, err := replaceStrings(node[i], replace)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			node[i] = next
		}
	case map[string]any:
		for key, value := range node {
			next, err := replaceStrings(value, replace)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			node[key] = next
		}
	}
	return node, nil
}

// placeholders replaces the placeholders in the strings of one document.
type placeholders struct {
	value func(ValueRef) (any, error)
	bytes int
}

// replace substitutes the placeholders in a text. If the text is one placeholder with a type, it returns a value of
// this type instead of a string.
func (p *placeholders) replace(text string) (any, error) {
	if !strings.Contains(text, placeholderStart) {
		return text, nil
	}
	var out strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, placeholderStart)
		if !found {
			out.WriteString(rest)
			break
		}
		if literal, escaped := strings.CutSuffix(before, "$"); escaped {
			out.WriteString(literal + placeholderStart)
			rest = after
			continue
		}
		name, next, closed := strings.Cut(after, placeholderEnd)
		if !closed {
			return nil, errors.New("a value placeholder has no closing brace")
		}
		ref := ValueRef(name)
		value, err := p.value(ref)
		switch {
		case err != nil:
			return nil, err
		case ref.IsTyped() && text == placeholderStart+name+placeholderEnd:
			return value, nil
		case ref.IsTyped():
			return nil, fmt.Errorf("value %s: a placeholder with a type must be the whole string: in a text, use %s%s%s",
				ref, placeholderStart, ref.Name(), placeholderEnd)
		}
		fmt.Fprint(&out, before, value)
		rest = next
		if p.bytes+out.Len() > maxSubstitutedBytes {
			break
		}
	}
	if p.bytes += out.Len(); p.bytes > maxSubstitutedBytes {
		return nil, fmt.Errorf("the strings with values are larger than %d bytes in total", maxSubstitutedBytes)
	}
	return out.String(), nil
}

func hasPlaceholder(node any) bool {
	switch node := node.(type) {
	case string:
		return strings.Contains(node, placeholderStart)
	case []any:
		return slices.ContainsFunc(node, hasPlaceholder)
	case map[string]any:
		for key, value := range node {
			if strings.Contains(key, placeholderStart) || hasPlaceholder(value) {
				return true
			}
		}
	}
	return false
}
