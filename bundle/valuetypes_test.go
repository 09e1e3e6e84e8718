package bundle

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

func TestTypedPlaceholderInsertsNumberOrBoolean(t *testing.T) {
	for name, c := range map[string]struct {
		ref, value string
		want       any
	}{
		"integer":                     {"size:int", "3", int64(3)},
		"negative integer":            {"size:int", "-17", int64(-17)},
		"largest integer":             {"size:int", "9223372036854775807", int64(9223372036854775807)},
		"integer out of range":        {"size:int", "9223372036854775808", nil},
		"integer with a plus sign":    {"size:int", "+3", nil},
		"integer with a leading zero": {"size:int", "03", nil},
		"hexadecimal integer":         {"size:int", "0x10", nil},
		"integer with underscores":    {"size:int", "1_000", nil},
		"integer with a space":        {"size:int", " 3", nil},
		"decimal number":              {"size:int", "3.0", nil},
		"word":                        {"size:int", "three", nil},
		"empty integer":               {"size:int", "", nil},
		"integer and YAML":            {"size:int", "3\nadmin: true", nil},
		"true":                        {"size:bool", "true", true},
		"false":                       {"size:bool", "false", false},
		"upper-case boolean":          {"size:bool", "True", nil},
		"boolean of YAML 1.1":         {"size:bool", "yes", nil},
		"number as text":              {"size", "3", "3"},
	} {
		tree := map[string]any{"a": []any{map[string]any{"b": placeholderStart + c.ref + placeholderEnd}}}
		err := ModuleValues{c.ref: &c.value}.Substitute(tree)
		if c.want == nil {
			if err == nil || !strings.Contains(err.Error(), "a: [0]: b: value size: must be ") {
				t.Errorf("%s: got error %v, want the field, the value and the type", name, err)
			}
			continue
		}
		if want := map[string]any{"a": []any{map[string]any{"b": c.want}}}; err != nil || !reflect.DeepEqual(tree, want) {
			t.Errorf("%s: got tree %v, error %v, want %v", name, tree, err, want)
		}
	}
}

func TestTypedPlaceholderMustBeTheWholeString(t *testing.T) {
	three := "3"
	values := ModuleValues{"size:int": &three, "size": &three}
	for text, wrong := range map[string]string{
		"at most ${kyma-pull.dev/values.size:int}":                         "must be the whole string",
		"${kyma-pull.dev/values.size:int} ":                                "must be the whole string",
		"${kyma-pull.dev/values.size:int}${kyma-pull.dev/values.size:int}": "must be the whole string",
		"${kyma-pull.dev/values.size:bool}":                                "is not listed in annotation",
		"${kyma-pull.dev/values.size:}":                                    "is not listed in annotation",
	} {
		err := values.Substitute(map[string]any{"a": text})
		if err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: got error %v, want %q", text, err, wrong)
		}
	}
	tree := map[string]any{"a": "at most ${kyma-pull.dev/values.size}, $${kyma-pull.dev/values.size:int}"}
	if err := values.Substitute(tree); err != nil || tree["a"] != "at most 3, ${kyma-pull.dev/values.size:int}" {
		t.Errorf("got text %q, error %v, want the value in the text", tree["a"], err)
	}
}

func TestReferencesWithUnknownTypesAreRefused(t *testing.T) {
	refs, err := ParseUsedValues("size:int, size, labels.example.org/ha:bool,size:int")
	if want := []ValueRef{"labels.example.org/ha:bool", "size", "size:int"}; err != nil || !reflect.DeepEqual(refs, want) {
		t.Errorf("got references %v, error %v, want %v", refs, err, want)
	}
	for _, text := range []string{"size:float", "size:", "size:int:int", ":int", "size: int:x", "Size:int"} {
		if _, err := ParseUsedValues(text); err == nil {
			t.Errorf("%q: got no error, want one", text)
		}
	}
	found, err := FindValueRefs(map[string]any{
		"a": "${kyma-pull.dev/values.size:int}", "b": []any{"x-${kyma-pull.dev/values.region}", "$${kyma-pull.dev/values.c}"},
	})
	if want := []ValueRef{"region", "size:int"}; err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("got references %v, error %v, want %v", found, err, want)
	}
	for _, text := range []string{"${kyma-pull.dev/values.size:float}", "x${kyma-pull.dev/values.size:int}",
		"${kyma-pull.dev/values.Size}", "${kyma-pull.dev/values.size"} {
		if _, err := FindValueRefs(map[string]any{"a": text}); err == nil || !strings.HasPrefix(err.Error(), "a: ") {
			t.Errorf("%s: got error %v, want one with the field", text, err)
		}
	}
}

func TestModuleWithTypedValuesRequiresTypedValuesFeature(t *testing.T) {
	state := sampleState()
	state.Manifests[0].Annotations = map[string]string{v1beta2.AnnotationUsesValues: "region, size:int"}
	if got := state.CriticalFeatures(); !reflect.DeepEqual(got, []Feature{FeatureValueTypes, FeatureValues}) {
		t.Errorf("got critical features %v, want value-types and values", got)
	}
	values := Values{"region": "eu", "size": "three", "unused": "x"}
	if got := values.SelectNames(state.UsedValues()); !reflect.DeepEqual(got, Values{"region": "eu", "size": "three"}) {
		t.Errorf("statement: got values %v, want region and size", got)
	}
	used := values.For(state.Manifests[0])
	if again, err := ParseModuleValues(used.String()); err != nil || !reflect.DeepEqual(again, used) {
		t.Errorf("%s: got parsed values %v, error %v, want equal values", used, again, err)
	}
	cr := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"nodes": []any{
		map[string]any{"count": "${kyma-pull.dev/values.size:int}"}}}}}
	err := InvalidValues("keda", used.InvalidRefs(), cr)
	want := "module keda: value size must be an integer, such as 3 (default CR: spec.nodes[0].count): " +
		"correct annotation kyma-pull.dev/values or the label of this runtime's Kyma in the control plane"
	if reason.Of(err) != reason.ValueInvalid || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
	if err := InvalidValues("keda", Values{"region": "eu", "size": "3"}.For(state.Manifests[0]).InvalidRefs(),
		cr); err != nil {
		t.Errorf("valid values: got error %v, want none", err)
	}
}
