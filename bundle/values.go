package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Values are named values of one runtime. A module can refer to a value in its default CR and its chart values as
// ${kyma-pull.dev/values.NAME}, if its ModuleTemplate lists NAME in AnnotationUsesValues.
//
// A name is a lower-case word, such as region. The name labels.KEY refers to the label KEY of the Kyma in KCP.
type Values map[string]string

const (
	// LabelValuePrefix is the prefix of a name that refers to a label of the Kyma in KCP.
	LabelValuePrefix                 = "labels."
	placeholderStart, placeholderEnd = "${kyma-pull.dev/values.", "}"
)

// Limits of values. An attestation contains the values and the sealed Secrets, and has a limit of 64 KiB.
const (
	MaxValues      = 64
	MaxValueBytes  = 1 << 10
	MaxValuesBytes = 6 << 10
	// maxSubstitutedBytes limits the total size of the strings with placeholders in one document.
	maxSubstitutedBytes = 1 << 20
)

// CheckValueName returns an error if a name is not valid for a value.
func CheckValueName(name string) error {
	if key, label := strings.CutPrefix(name, LabelValuePrefix); label {
		if len(validation.IsQualifiedName(key)) > 0 {
			return fmt.Errorf("value name %s: must be %s followed by the key of a label", Quote(name, maxQuotedBytes),
				LabelValuePrefix)
		}
		return nil
	}
	if len(validation.IsDNS1035Label(name)) > 0 {
		return fmt.Errorf(
			"value name %s: must be at most 63 lower-case letters, digits and hyphens, beginning with a letter, or %s "+
				"and the key of a label",
			Quote(name, maxQuotedBytes),
			LabelValuePrefix,
		)
	}
	return nil
}

// Check returns an error if a name or value is invalid or if the values exceed a limit. The error never contains a
// value.
func (v Values) Check() error {
	if len(v) > MaxValues {
		return fmt.Errorf("%d values, must be at most %d", len(v), MaxValues)
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if err := CheckValueName(name); err != nil {
			return err
		}
		value := v[name]
		if len(value) > MaxValueBytes {
			return fmt.Errorf("value %s: %d bytes, must be at most %d", name, len(value), MaxValueBytes)
		}
		if !utf8.ValidString(value) || strings.ContainsFunc(value, isControl) {
			return fmt.Errorf("value %s: must not contain control characters except tab and newline", name)
		}
		total += len(name) + len(value)
	}
	if total > MaxValuesBytes {
		return fmt.Errorf("%d bytes of values in total, must be at most %d", total, MaxValuesBytes)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\n' || r == 0x7f }

// ParseValues parses the AnnotationValues of a Kyma in KCP, a JSON object of strings. Names with LabelValuePrefix are
// not allowed.
func ParseValues(text string) (Values, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > 4*MaxValuesBytes {
		return nil, fmt.Errorf("the annotation is %d bytes, must be at most %d", len(text), 4*MaxValuesBytes)
	}
	var values Values
	if err := decodeStrict([]byte(text), &values); err != nil {
		return nil, fmt.Errorf(`must be a JSON object of strings, such as {"region": "eu-central-1"}: %w`, err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(name, LabelValuePrefix) {
			return nil, fmt.Errorf("value %s: names with prefix %s refer to labels of the Kyma: set the label",
				Quote(name, maxQuotedBytes), LabelValuePrefix)
		}
	}
	return values, values.Check()
}

// ParseUsedValues parses the annotation AnnotationUsesValues of a ModuleTemplate or Manifest and returns the names,
// sorted.
func ParseUsedValues(text string) ([]string, error) {
	names := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > MaxValues {
		return nil, fmt.Errorf("the annotation lists %d names, must be at most %d", len(names), MaxValues)
	}
	for _, name := range names {
		if err := CheckValueName(name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// SelectNames returns the values with the given names. It omits names that have no value.
func (v Values) SelectNames(names []string) Values {
	var some Values
	for _, name := range names {
		value, defined := v[name]
		if !defined {
			continue
		}
		if some == nil {
			some = Values{}
		}
		some[name] = value
	}
	return some
}

// UndefinedValues returns the error for a module that uses values which its runtime does not have, or nil if names is
// empty.
func UndefinedValues(module string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return reason.Errorf(
		reason.ValueUndefined,
		"module %s: value %s is not defined for this runtime: set annotation %s or the label of its Kyma in the "+
			"control plane",
		module,
		strings.Join(names, ", "),
		v1beta2.AnnotationValues,
	)
}

// ModuleValues are the values that one module uses. A nil value means that the runtime does not define the value.
type ModuleValues map[string]*string

// UndefinedNames returns the names without a value, sorted.
func (v ModuleValues) UndefinedNames() []string {
	var names []string
	for name, value := range v {
		if value == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// String returns the values as JSON for the annotation AnnotationValues of a Manifest. Without values, it returns "".
func (v ModuleValues) String() string {
	if len(v) == 0 {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("values always encode: %v", err)) // a map of strings always encodes
	}
	return string(text)
}

// ParseModuleValues parses the annotation AnnotationValues of a Manifest.
func ParseModuleValues(text string) (ModuleValues, error) {
	if text == "" {
		return nil, nil
	}
	var values ModuleValues
	if err := decodeStrict([]byte(text), &values); err != nil {
		return nil, err
	}
	return values, nil
}

var identityFields = []string{"apiVersion", "kind", "metadata"}

// SubstituteObject replaces the placeholders in an object, in place. It returns an error for placeholders in
// apiVersion, kind and metadata.
func (v ModuleValues) SubstituteObject(object map[string]any) error {
	if len(v) == 0 {
		return nil
	}
	s := valueSubstitution{values: v}
	for field, value := range object {
		if slices.Contains(identityFields, field) {
			if hasPlaceholder(value) {
				return fmt.Errorf("%s: value placeholders are not allowed in %s", field,
					strings.Join(identityFields, ", "))
			}
			continue
		}
		next, err := s.substituteTree(value)
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
	s := valueSubstitution{values: v}
	_, err := s.substituteTree(tree)
	return err
}

type valueSubstitution struct {
	values ModuleValues
	bytes  int
}

func (s *valueSubstitution) substituteTree(node any) (any, error) {
	switch node := node.(type) {
	case string:
		return s.substituteText(node)
	case []any:
		for i := range node {
			next, err := s.substituteTree(node[i])
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			node[i] = next
		}
	case map[string]any:
		for key, value := range node {
			next, err := s.substituteTree(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			node[key] = next
		}
	}
	return node, nil
}

func (s *valueSubstitution) substituteText(text string) (string, error) {
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
			return "", errors.New("a value placeholder has no closing brace")
		}
		value, listed := s.values[name]
		switch {
		case !listed:
			return "", fmt.Errorf("value %s is not listed in annotation %s of the ModuleTemplate", Quote(name,
				maxQuotedBytes), v1beta2.AnnotationUsesValues)
		case value == nil:
			return "", fmt.Errorf("value %s is not defined", name)
		}
		out.WriteString(before + *value)
		rest = next
		if s.bytes+out.Len() > maxSubstitutedBytes {
			break
		}
	}
	if s.bytes += out.Len(); s.bytes > maxSubstitutedBytes {
		return "", fmt.Errorf("the strings with values are larger than %d bytes in total", maxSubstitutedBytes)
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
