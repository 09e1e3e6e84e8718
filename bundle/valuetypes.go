package bundle

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

// ValueRef refers to a value in a placeholder and in AnnotationUsesValues. NAME inserts the value as text, NAME:int as
// an integer, and NAME:bool as a boolean. A reference with a type requires FeatureValueTypes.
type ValueRef string

const (
	// LabelValuePrefix is the prefix of a name that refers to a label of the Kyma in KCP.
	LabelValuePrefix                 = "labels."
	placeholderStart, placeholderEnd = "${kyma-pull.dev/values.", "}"
)

// valueType is the type of a reference. It contains a description for messages and a valid sample value. The function
// convert converts text to the type. It returns false if the text is not a value of the type.
type valueType struct {
	description, sample string
	convert             func(text string) (value any, valid bool)
}

// valueTypes maps the text after the colon in a reference to the type.
var valueTypes = map[string]valueType{
	"int":  {"an integer, such as 3", "1", parseInteger},
	"bool": {"true or false", v1beta2.True, parseBoolean},
}

// decimalInteger matches integers in the format of JSON. Other formats, such as 0x10 and 1_000, differ between parsers.
var decimalInteger = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

// Name returns the name of the value.
func (r ValueRef) Name() string {
	name, _, _ := strings.Cut(string(r), ":")
	return name
}

// valueType returns the type after the colon. It returns false for a reference without a type, or with an unknown type.
func (r ValueRef) valueType() (found valueType, known bool) {
	_, name, _ := strings.Cut(string(r), ":")
	found, known = valueTypes[name]
	return found, known
}

// IsTyped reports whether the reference has a type. A placeholder with a type replaces a whole string.
func (r ValueRef) IsTyped() bool { return strings.Contains(string(r), ":") }

// Check returns an error if the name or the type is invalid.
func (r ValueRef) Check() error {
	if _, known := r.valueType(); r.IsTyped() && !known {
		return fmt.Errorf("value %s: the type after the colon must be int or bool", Quote(string(r), maxQuotedBytes))
	}
	return CheckValueName(r.Name())
}

// Accepts reports whether the value can be converted to the type of the reference.
func (r ValueRef) Accepts(value string) bool {
	_, err := r.convert(value)
	return err == nil
}

// convert converts the value to the reference's type: a string, an int64 or a bool. The error does not contain the
// value.
func (r ValueRef) convert(value string) (any, error) {
	if !r.IsTyped() {
		return value, nil
	}
	as, known := r.valueType()
	if !known {
		return nil, r.Check()
	}
	converted, valid := as.convert(value)
	if !valid {
		return nil, fmt.Errorf("value %s: must be %s", r.Name(), as.description)
	}
	return converted, nil
}

func parseInteger(text string) (any, bool) {
	number, err := strconv.ParseInt(text, 10, 64)
	return number, err == nil && decimalInteger.MatchString(text)
}

func parseBoolean(text string) (any, bool) {
	return text == v1beta2.True, text == v1beta2.True || text == v1beta2.False
}

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

// InvalidValues returns an error for a module whose runtime defines values of the wrong type. refs lists
// the references to these values. If it is empty, InvalidValues returns nil. If defaultCR is not nil, the error lists
// the fields of this default CR that use the values.
func InvalidValues(module string, refs []ValueRef, defaultCR *unstructured.Unstructured) error {
	if len(refs) == 0 {
		return nil
	}
	var fields map[string]any
	if defaultCR != nil {
		fields = defaultCR.Object
	}
	texts := make([]string, 0, len(refs))
	for _, ref := range refs {
		as, _ := ref.valueType()
		text := fmt.Sprintf("value %s must be %s", ref.Name(), as.description)
		if paths := fieldsWith(fields, placeholderStart+string(ref)+placeholderEnd); len(paths) > 0 {
			text += fmt.Sprintf(" (default CR: %s)", strings.Join(paths, ", "))
		}
		texts = append(texts, text)
	}
	return reason.Errorf(
		reason.ValueInvalid,
		"module %s: %s: correct annotation %s or the label of this runtime's Kyma in the control plane",
		module, strings.Join(texts, "; "), v1beta2.AnnotationValues,
	)
}

// fieldsWith returns the paths of the fields whose text contains the placeholder, sorted.
func fieldsWith(tree map[string]any, placeholder string) []string {
	var fields []string
	var search func(path string, node any)
	search = func(path string, node any) {
		switch node := node.(type) {
		case string:
			if strings.Contains(node, placeholder) {
				fields = append(fields, path)
			}
		case []any:
			for i := range node {
				search(fmt.Sprintf("%s[%d]", path, i), node[i])
			}
		case map[string]any:
			for key, value := range node {
				search(strings.TrimPrefix(path+"."+key, "."), value)
			}
		}
	}
	search("", tree)
	slices.Sort(fields)
	return fields
}
