package bundle

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestValuesReplacePlaceholdersOnlyInParsedStrings(t *testing.T) {
	hostile := "a\"}\nadmin: true # {{ .Values }} ${kyma-pull.dev/values.zone}"
	values := ModuleValues{"region": new(string), "zone": new(string), "labels.example.org/tier": new(string),
		"gone": nil}
	*values["region"], *values["zone"], *values["labels.example.org/tier"] = "eu", "a", hostile
	for name, c := range map[string]struct{ text, want, wrong string }{
		"text without a placeholder": {"region: $region ${region} ${{ values.region }}",
			"region: $region ${region} ${{ values.region }}", ""},
		"placeholder as the whole string": {"${kyma-pull.dev/values.region}", "eu", ""},
		"several placeholders in one string": {"${kyma-pull.dev/values.region}-${kyma-pull.dev/values.zone}!",
			"eu-a!", ""},
		"placeholder for a label": {"tier=${kyma-pull.dev/values.labels.example.org/tier}",
			"tier=" + hostile, ""},
		"escaped placeholder": {"$${kyma-pull.dev/values.region} ${kyma-pull.dev/values.region}",
			"${kyma-pull.dev/values.region} eu", ""},
		"dollar sign outside a placeholder":   {"$5 ${kyma-pull.dev/values.region}", "$5 eu", ""},
		"value that is not listed":            {"${kyma-pull.dev/values.other}", "", "is not listed in annotation"},
		"undefined value":                     {"${kyma-pull.dev/values.gone}", "", "value gone is not defined"},
		"placeholder without a closing brace": {"${kyma-pull.dev/values.region", "", "no closing brace"},
		"placeholder with an empty name":      {"${kyma-pull.dev/values.}", "", "is not listed in annotation"},
		"placeholder inside a placeholder": {"${kyma-pull.dev/values.${kyma-pull.dev/values.region}}", "",
			"is not listed in annotation"},
	} {
		tree := map[string]any{"a": []any{map[string]any{"b": c.text}, int64(1), true, nil},
			"${kyma-pull.dev/values.region}": 1.5}
		err := values.Substitute(tree)
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: got %v, want %q", name, err, c.wrong)
			}
			continue
		}
		want := map[string]any{"a": []any{map[string]any{"b": c.want}, int64(1), true, nil},
			"${kyma-pull.dev/values.region}": 1.5}
		if err != nil || !reflect.DeepEqual(tree, want) {
			t.Errorf("%s: got tree %v, error %v, want %v", name, tree, err, want)
		}
	}
	if tree := map[string]any{"a": "${kyma-pull.dev/values.region}"}; (ModuleValues{}).Substitute(tree) != nil ||
		tree["a"] != "${kyma-pull.dev/values.region}" {
		t.Errorf("module that does not use values: got tree %v, want it unchanged", tree)
	}
}

func TestSubstitutedValuesAreLimitedInSize(t *testing.T) {
	long := strings.Repeat("x", MaxValueBytes)
	values := ModuleValues{"long": &long}
	one := strings.Repeat("${kyma-pull.dev/values.long}", 100)
	tree := map[string]any{}
	for _, key := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		tree[key] = one
	}
	if err := values.Substitute(tree); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got error %v, want a size limit", err)
	}
	if err := values.Substitute(map[string]any{"a": strings.Repeat(one, 1000)}); err == nil {
		t.Error("got no error for a string of 100 MiB, want an error")
	}
}

func TestPlaceholdersInIdentityFieldsAreRefused(t *testing.T) {
	region := "eu"
	values := ModuleValues{"region": &region}
	for _, object := range []string{
		`{"apiVersion":"${kyma-pull.dev/values.region}/v1","spec":{}}`, `{"kind":"${kyma-pull.dev/values.region}"}`,
		`{"metadata":{"name":"a-${kyma-pull.dev/values.region}"}}`,
		`{"metadata":{"annotations":{"${kyma-pull.dev/values.region}":"a"}}}`,
	} {
		var o map[string]any
		if err := json.Unmarshal([]byte(object), &o); err != nil {
			t.Fatal(err)
		}
		if err := values.SubstituteObject(o); err == nil ||
			!strings.Contains(err.Error(), "not allowed in apiVersion, kind, metadata") {
			t.Errorf("%s: got error %v, want a refused placeholder", object, err)
		}
	}
	o := map[string]any{"kind": "A", "data": map[string]any{"r": "${kyma-pull.dev/values.region}"}}
	if err := values.SubstituteObject(o); err != nil || !reflect.DeepEqual(o["data"], map[string]any{"r": "eu"}) {
		t.Errorf("got object %v, error %v, want the replaced placeholder", o, err)
	}
}

func TestValuesOverALimitAreRefused(t *testing.T) {
	many := Values{}
	for i := range MaxValues + 1 {
		many["n"+strings.Repeat("x", i%60)+string(rune('a'+i/60))] = ""
	}
	for name, c := range map[string]struct {
		values Values
		wrong  string
	}{
		"no values":                   {nil, ""},
		"value with line breaks":      {Values{"ca": "-----BEGIN CERTIFICATE-----\nMII\t=\n"}, ""},
		"value with prefix labels.":   {Values{"labels.kyma-project.io/region": "eu"}, ""},
		"more values than the limit":  {many, "65 values, must be at most 64"},
		"value longer than the limit": {Values{"a": strings.Repeat("x", MaxValueBytes+1)}, "value a: 1025 bytes"},
		"values larger than the limit in total": {Values{"a": strings.Repeat("x", 1024), "b": strings.Repeat("x", 1024),
			"c": strings.Repeat("x", 1024),
			"d": strings.Repeat("x", 1024), "e": strings.Repeat("x", 1024), "f": strings.Repeat("x",
				1024)}, "in total"},
		"upper-case name":           {Values{"Region": "x"}, "value name"},
		"name with a brace":         {Values{"a}b": "x"}, "value name"},
		"label with an invalid key": {Values{"labels.a b": "x"}, "value name"},
		"control character":         {Values{"a": "x\x00"}, "control characters"},
		"escape sequence":           {Values{"a": "\x1b[2J"}, "control characters"},
		"invalid UTF-8":             {Values{"a": "\xff"}, "control characters"},
	} {
		err := c.values.Check()
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: got %v, want %q", name, err, c.wrong)
		}
	}
}

func TestValueAnnotationsAreParsedStrictly(t *testing.T) {
	for name, c := range map[string]struct{ text, wrong string }{
		"object of strings":          {`{"region":"eu","zone":"a"}`, ""},
		"empty text":                 {"", ""},
		"number as value":            {`{"replicas": 3}`, "must be a JSON object of strings"},
		"list instead of an object":  {`["a"]`, "must be a JSON object of strings"},
		"duplicate name":             {`{"a":"1","a":"2"}`, "must be a JSON object of strings"},
		"name with prefix labels.":   {`{"labels.region":"eu"}`, "set the label"},
		"text longer than the limit": {`{"a":"` + strings.Repeat("x", 1<<20) + `"}`, "at most"},
	} {
		_, err := ParseValues(c.text)
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: got %v, want %q", name, err, c.wrong)
		}
	}
	names, err := ParseUsedValues("zone, region,region labels.a/b")
	if err != nil || !reflect.DeepEqual(names, []ValueRef{"labels.a/b", "region", "zone"}) {
		t.Errorf("got names %v, error %v, want three sorted names", names, err)
	}
	if _, err := ParseUsedValues("a, B"); err == nil {
		t.Error("invalid name: got no error, want an error")
	}
}

func TestAgentsRefuseStatementsWithInvalidValues(t *testing.T) {
	predicate := samplePredicate()
	predicate.Values = Values{"region": "eu"}
	if _, err := Compose(sampleDocuments(t), predicate, trusttest.NewSigner(t)); err != nil {
		t.Fatal(err)
	}
	predicate.Values = Values{"region": strings.Repeat("x", MaxValueBytes+1)}
	if _, err := Compose(sampleDocuments(t), predicate,
		trusttest.NewSigner(t)); err == nil || !strings.Contains(err.Error(), "values: value region") {
		t.Errorf("got error %v, want an error about value region", err)
	}
}

func TestModuleWithValuesRequiresTheValuesFeature(t *testing.T) {
	state := sampleState()
	if len(state.CriticalFeatures()) != 0 {
		t.Fatalf("state without values: got critical features %v, want none", state.CriticalFeatures())
	}
	state.Manifests[0].Annotations = map[string]string{v1beta2.AnnotationUsesValues: "region, zone"}
	if got := state.CriticalFeatures(); !reflect.DeepEqual(got, []Feature{FeatureValues}) {
		t.Errorf("state with values: got critical features %v, want values", got)
	}
	values := Values{"region": "eu", "unused": "x"}
	if got := values.SelectNames(state.UsedValues()); !reflect.DeepEqual(got, Values{"region": "eu"}) {
		t.Errorf("statement: got values %v, want only region", got)
	}
	used := values.For(state.Manifests[0])
	err := UndefinedValues("keda", used.UndefinedNames())
	if reason.Of(err) != reason.ValueUndefined ||
		!strings.Contains(err.Error(), "module keda: value zone is not defined") {
		t.Errorf("got error %v, want the reason ValueUndefined and the value", err)
	}
	if again, err := ParseModuleValues(used.String()); err != nil || !reflect.DeepEqual(again, used) {
		t.Errorf("%s: got parsed values %v, error %v, want equal values", used, again, err)
	}
}
