package layout

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// An API server client cannot decode a list that contains an object with an invalid duration. The CRD must therefore
// refuse all strings that are not durations.
func TestCRDsRefuseInvalidDurations(t *testing.T) {
	definitions, _ := shipped(t)
	kinds := map[string]any{
		"RolloutPolicy": v1alpha1.RolloutPolicy{}, "Rollout": v1alpha1.Rollout{},
		"PromotionPolicy": v1alpha1.PromotionPolicy{},
	}
	durations := 0
	for _, d := range definitions {
		object, ours := kinds[d.Spec.Names.Kind]
		if !ours {
			continue
		}
		walkDurations(t, d.Spec.Names.Kind, reflect.TypeOf(object), storedVersion(d).Schema.OpenAPIV3Schema,
			func(path string, schema *apiextensionsv1.JSONSchemaProps) {
				durations++
				checkDuration(t, path, schema)
			})
	}
	if durations < 12 {
		t.Errorf("found only %d durations", durations)
	}
}

// walkDurations calls visit for each field of a type that is a duration.
func walkDurations(
	t *testing.T, path string, of reflect.Type, schema *apiextensionsv1.JSONSchemaProps,
	visit func(string, *apiextensionsv1.JSONSchemaProps),
) {
	t.Helper()
	switch {
	case of == reflect.TypeFor[metav1.Duration]():
		visit(path, schema)
	case of.Kind() == reflect.Pointer:
		walkDurations(t, path, of.Elem(), schema, visit)
	case of.Kind() == reflect.Slice && schema.Items != nil:
		walkDurations(t, path+"[]", of.Elem(), schema.Items.Schema, visit)
	case of.Kind() == reflect.Struct:
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" && f.Anonymous {
				walkDurations(t, path, f.Type, schema, visit)
			} else if inner, has := schema.Properties[name]; has {
				walkDurations(t, path+"."+name, f.Type, &inner, visit)
			}
		}
	}
}

func checkDuration(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	pattern, err := regexp.Compile(schema.Pattern)
	if err != nil || schema.Pattern == "" || schema.MaxLength == nil {
		t.Errorf("%s: pattern %q without a maximum length: %v", path, schema.Pattern, err)
		return
	}
	for text, valid := range map[string]bool{
		"30m": true, "1h30m0s": true, "1.5h": true, "0s": true, "0": true, "604800s": true, "999999h999999h99999h": true,
		"3 minutes": false, "1d": false, "30": false, "": false, "-5m": false, "9999999999h": false,
		"999999h999999h999999h": false,
	} {
		accepted := pattern.MatchString(text) && int64(len(text)) <= *schema.MaxLength
		if accepted != valid {
			t.Errorf("%s: duration %q is accepted: %t", path, text, accepted)
		}
		if _, err := time.ParseDuration(text); accepted && err != nil {
			t.Errorf("%s: the definition accepts %q, but clients cannot decode it: %v", path, text, err)
		}
	}
}
