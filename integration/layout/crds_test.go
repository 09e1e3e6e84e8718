package layout

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// shippedCRDs lists each chart and the folder with its CRDs.
var shippedCRDs = []struct{ chart, folder string }{
	{"kcp-publisher", "charts/kcp-publisher/files/crds"}, {"skr-agent", "charts/skr-agent/crds"},
}

func TestReferenceOfCRDsIsCurrent(t *testing.T) {
	definitions, charts := shipped(t)
	var page strings.Builder
	page.WriteString(
		"# Custom resource definitions\n\nThis page lists all CRDs that the charts install. `make " +
			"generate` writes this page.\n" +
			"[Annotations and labels](annotations-and-labels.md) and [conditions and reasons](conditions-and-reasons.md) have " +
			"their own pages.\n" +
			"A path ends in `[]` for an entry of a list, and in `.*` for a value of a map.\n\n| kind | group | scope | " +
			"chart |\n|---|---|---|---|\n")
	for _, d := range definitions {
		fmt.Fprintf(&page, "| [%s](#%s) | `%s` | %s | %s |\n", d.Spec.Names.Kind, strings.ToLower(d.Spec.Names.Kind),
			d.Spec.Group, d.Spec.Scope, strings.Join(charts[d.Name], ", "))
	}
	for _, d := range definitions {
		writeDefinition(&page, d)
	}
	checkReference(t, "docs/reference/crds.md", page.String())
}

// shipped returns all charts' CRDs, sorted by name, and the charts that contain each CRD, by name. Two CRDs with the
// same name must be equal.
func shipped(t *testing.T) (definitions []apiextensionsv1.CustomResourceDefinition, charts map[string][]string) {
	t.Helper()
	charts = map[string][]string{}
	texts := map[string]string{}
	for _, from := range shippedCRDs {
		entries, err := os.ReadDir(filepath.Join(root(t), from.folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			text := readFile(t, path.Join(from.folder, entry.Name()))
			var d apiextensionsv1.CustomResourceDefinition
			if err := yaml.UnmarshalStrict([]byte(text), &d); err != nil {
				t.Fatalf("%s: %v", entry.Name(), err)
			}
			charts[d.Name] = append(charts[d.Name], from.chart)
			if other, there := texts[d.Name]; there {
				if other != text {
					t.Errorf("the charts have different versions of %s: run make generate", d.Name)
				}
				continue
			}
			texts[d.Name] = text
			definitions = append(definitions, d)
		}
	}
	slices.SortFunc(definitions, func(a, b apiextensionsv1.CustomResourceDefinition) int {
		return strings.Compare(a.Name, b.Name)
	})
	return definitions, charts
}

func writeDefinition(page *strings.Builder, d apiextensionsv1.CustomResourceDefinition) {
	names := d.Spec.Names
	fmt.Fprintf(page,
		"\n## %s\n\n| | |\n|---|---|\n| definition | `%s` |\n| group | `%s` |\n| kind | `%s`, in lists `%s` |\n| "+
			"scope | %s |\n",
		names.Kind, d.Name, d.Spec.Group, names.Kind, names.ListKind, d.Spec.Scope)
	fmt.Fprintf(page, "| names for kubectl | %s |\n| categories | %s |\n",
		codes(append([]string{names.Plural, names.Singular}, names.ShortNames...)), codes(names.Categories))
	stored := storedVersion(d)
	fmt.Fprintf(page, "| versions | %s |\n", versionsOf(d))
	for _, v := range slices.Backward(d.Spec.Versions) {
		fmt.Fprintf(page, "\n### %s %s\n", names.Kind, v.Name)
		if v.DeprecationWarning != nil {
			fmt.Fprintf(page, "\nDeprecated: %s\n", *v.DeprecationWarning)
		}
		writeColumns(page, v)
		fields := fieldsOf(v)
		if v.Name == stored.Name {
			writeFields(page, "", fields)
			continue
		}
		writeDifference(page, v.Name, stored.Name, fields, fieldsOf(stored))
	}
}

func versionsOf(d apiextensionsv1.CustomResourceDefinition) string {
	all := make([]string, 0, len(d.Spec.Versions))
	for _, v := range slices.Backward(d.Spec.Versions) {
		messages := []string{"not served, unless the publisher's webhooks are on"}
		if v.Served {
			messages[0] = "served"
		}
		if v.Storage {
			messages = append(messages, "stored")
		}
		if v.Subresources != nil && v.Subresources.Status != nil {
			messages = append(messages, "status is a subresource")
		}
		all = append(all, fmt.Sprintf("`%s`: %s", v.Name, strings.Join(messages, ", ")))
	}
	return strings.Join(all, "; ")
}

func storedVersion(d apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionVersion {
	return d.Spec.Versions[slices.IndexFunc(d.Spec.Versions,
		func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })]
}

func writeColumns(page *strings.Builder, v apiextensionsv1.CustomResourceDefinitionVersion) {
	if len(v.AdditionalPrinterColumns) > 0 {
		page.WriteString("\n| column of `kubectl get` | from | with |\n|---|---|---|\n")
	}
	for _, c := range v.AdditionalPrinterColumns {
		with := ""
		if c.Priority > 0 {
			with = "`-o wide`"
		}
		fmt.Fprintf(page, "| %s | `%s` | %s |\n", c.Name, c.JSONPath, with)
	}
	if len(v.SelectableFields) > 0 {
		selectors := make([]string, 0, len(v.SelectableFields))
		for _, f := range v.SelectableFields {
			selectors = append(selectors, strings.TrimPrefix(f.JSONPath, "."))
		}
		fmt.Fprintf(page, "\n`--field-selector` supports %s.\n", codes(selectors))
	}
}

// crdField is one row in a CRD's table.
type crdField struct{ path, kind, required, limits, about string }

func writeFields(page *strings.Builder, title string, fields []crdField) {
	fmt.Fprintf(page, "%s\n| field | type | required | limits | meaning |\n|---|---|---|---|---|\n", title)
	for _, f := range fields {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s |\n", f.path, f.kind, f.required, f.limits, f.about)
	}
}

// writeDifference writes only the fields of an older version that differ from the stored version.
func writeDifference(page *strings.Builder, name, stored string, fields, all []crdField) {
	var own []crdField
	var missing []string
	inStored, here := byPath(all), byPath(fields)
	for _, f := range fields {
		if other, ok := inStored[f.path]; !ok || other.kind != f.kind || other.required != f.required ||
			other.limits != f.limits {
			own = append(own, f)
		}
	}
	for _, f := range all {
		if _, ok := here[f.path]; !ok {
			missing = append(missing, f.path)
		}
	}
	if len(own) == 0 {
		fmt.Fprintf(page, "\nThe fields of `%s` and `%s` are equal.\n", name, stored)
	} else {
		writeFields(page, fmt.Sprintf("\nThese fields differ from `%s`:\n", stored), own)
	}
	if len(missing) > 0 {
		fmt.Fprintf(page, "\n`%s` does not have %s.\n", name, codes(missing))
	}
}

func byPath(fields []crdField) map[string]crdField {
	found := map[string]crdField{}
	for _, f := range fields {
		found[f.path] = f
	}
	return found
}

func fieldsOf(v apiextensionsv1.CustomResourceDefinitionVersion) (fields []crdField) {
	addFields(&fields, "", *v.Schema.OpenAPIV3Schema)
	return fields
}

func addFields(fields *[]crdField, prefix string, schema apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if prefix == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue
		}
		one, required := schema.Properties[name], ""
		if slices.Contains(schema.Required, name) {
			required = "yes"
		}
		*fields = append(*fields, crdField{
			prefix + name, kindOf(one), required, limitsOf(one), inTable(one.Description),
		})
		addBelow(fields, prefix+name, one)
	}
}

// addBelow adds the nested fields of an object, list or map.
func addBelow(fields *[]crdField, at string, schema apiextensionsv1.JSONSchemaProps) {
	switch {
	case schema.Items != nil && schema.Items.Schema != nil:
		addBelow(fields, at+"[]", *schema.Items.Schema)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		addBelow(fields, at+".*", *schema.AdditionalProperties.Schema)
	default:
		addFields(fields, at+".", schema)
	}
}

func kindOf(schema apiextensionsv1.JSONSchemaProps) string {
	kind := schema.Type
	switch {
	case schema.XIntOrString:
		kind = "integer or string"
	case schema.XEmbeddedResource:
		kind = "object of any kind"
	case schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields:
		kind = "any " + kind
	case schema.Items != nil && schema.Items.Schema != nil:
		kind = "list of " + kindOf(*schema.Items.Schema)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		kind = "map to " + kindOf(*schema.AdditionalProperties.Schema)
	}
	if schema.Format != "" {
		kind += " (" + schema.Format + ")"
	}
	return strings.TrimSpace(kind)
}

// limitsOf describes a field's validation rules and default.
func limitsOf(schema apiextensionsv1.JSONSchemaProps) string {
	var all []string
	add := func(format string, values ...any) { all = append(all, fmt.Sprintf(format, values...)) }
	if schema.Default != nil {
		add("default `%s`", schema.Default.Raw)
	}
	if len(schema.Enum) > 0 {
		values := make([]string, 0, len(schema.Enum))
		for _, e := range schema.Enum {
			values = append(values, text(e.Raw))
		}
		add("one of %s", codes(values))
	}
	numbers := []struct {
		what string
		at   *int64
	}{
		{"length ≥ %d", schema.MinLength}, {"length ≤ %d", schema.MaxLength}, {"entries ≥ %d", schema.MinItems},
		{"entries ≤ %d", schema.MaxItems},
		{"entries ≥ %d", schema.MinProperties}, {"entries ≤ %d", schema.MaxProperties},
	}
	for _, n := range numbers {
		if n.at != nil {
			add(n.what, *n.at)
		}
	}
	if schema.Minimum != nil {
		add("≥ %v", *schema.Minimum)
	}
	if schema.Maximum != nil {
		add("≤ %v", *schema.Maximum)
	}
	if schema.Pattern != "" {
		add("pattern `%s`", strings.ReplaceAll(schema.Pattern, "|", `\|`))
	}
	if len(schema.XListMapKeys) > 0 {
		add("one entry for each %s", codes(schema.XListMapKeys))
	}
	if schema.XListType != nil && *schema.XListType == "set" {
		add("no entry twice")
	}
	for _, rule := range schema.XValidations {
		if rule.Message != "" {
			add("%s", inTable(rule.Message))
		} else {
			add("rule `%s`", inTable(rule.Rule))
		}
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		if entry := limitsOf(*schema.Items.Schema); entry != "" {
			add("each: %s", entry)
		}
	}
	return strings.Join(all, "; ")
}

func text(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// inTable escapes text for a table cell.
func inTable(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(strings.Join(strings.Fields(text), " "))
}

func codes(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
