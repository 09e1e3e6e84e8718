package bundle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// Values are a runtime's named values. A module can refer to a value in its default CR and its chart values as
// ${kyma-pull.dev/values.NAME}, if its ModuleTemplate lists NAME in AnnotationUsesValues. See ValueRef for types.
//
// A name is a lower-case word, such as region. The name labels.KEY refers to the label KEY on the Kyma in KCP.
type Values map[string]string

// Limits for values. An attestation contains the values and the sealed Secrets, and has a limit of 64 KiB.
const (
	MaxValues      = 64
	MaxValueBytes  = 1 << 10
	MaxValuesBytes = 6 << 10
	// maxSubstitutedBytes limits the total size of the strings with placeholders in one document.
	maxSubstitutedBytes = 1 << 20
)

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

// ParseValues parses the annotation AnnotationValues on a Kyma in KCP, a JSON object with string values. Names with
// LabelValuePrefix are not allowed.
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

// ParseUsedValues parses the annotation AnnotationUsesValues of a ModuleTemplate or Manifest and returns the
// references, sorted.
func ParseUsedValues(text string) ([]ValueRef, error) {
	var refs []ValueRef
	for ref := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		refs = append(refs, ValueRef(ref))
	}
	slices.Sort(refs)
	refs = slices.Compact(refs)
	if len(refs) > MaxValues {
		return nil, fmt.Errorf("the annotation lists %d names, must be at most %d", len(refs), MaxValues)
	}
	for _, ref := range refs {
		if err := ref.Check(); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// FormatUsedValues returns the value of the annotation AnnotationUsesValues for the references.
func FormatUsedValues(refs []ValueRef) string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = string(ref)
	}
	return strings.Join(names, ", ")
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

// UndefinedValues returns an error that lists the values that a module uses but its runtime does not define. It returns
// nil if the list of names is empty.
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

// ModuleValues maps the references in a module's AnnotationUsesValues to their values. A nil value means that the
// runtime does not define the value.
type ModuleValues map[string]*string

// UndefinedNames returns the names without a value, sorted.
func (v ModuleValues) UndefinedNames() []string {
	var names []string
	for key, value := range v {
		if value == nil {
			names = append(names, ValueRef(key).Name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// InvalidRefs returns the references whose value does not match the type of the reference, sorted.
func (v ModuleValues) InvalidRefs() []ValueRef {
	var refs []ValueRef
	for key, value := range v {
		if ref := ValueRef(key); value != nil && !ref.Accepts(*value) {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs
}

// String returns the values as JSON for the annotation AnnotationValues on a Manifest. Without values, it returns "".
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

// ParseModuleValues parses the annotation AnnotationValues on a Manifest.
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
