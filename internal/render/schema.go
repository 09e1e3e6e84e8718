package render

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// refusingLoader is a JSON schema loader that refuses references to other schemas. The default loader would read
// files and fetch URLs.
type refusingLoader struct{}

func (refusingLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not part of the schema and is not fetched: include it in values.schema.json",
		url)
}

// checkSchemas validates the values of a chart and its subcharts against their values.schema.json.
//
// Source: Helm's chartutil.ValidateAgainstSchema.
func checkSchemas(c *chart.Chart, values map[string]any) error {
	if c.Schema != nil {
		if err := checkSchema(c.Schema, values); err != nil {
			return fmt.Errorf("values of %s: %w", c.ChartFullPath(), err)
		}
	}
	for _, inner := range c.Dependencies() {
		value := values[inner.Name()]
		if value == nil {
			continue
		}
		own, ok := asMap(value)
		if !ok {
			return fmt.Errorf("values of %s are not a mapping", inner.ChartFullPath())
		}
		if err := checkSchemas(inner, own); err != nil {
			return err
		}
	}
	return nil
}

func asMap(value any) (map[string]any, bool) {
	switch m := value.(type) {
	case map[string]any:
		return m, true
	case chartutil.Values:
		return m, true
	}
	return nil, false
}

func checkSchema(text []byte, values map[string]any) error {
	const here = "file:///values.schema.json"
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refusingLoader{})
	if err := compiler.AddResource(here, schema); err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	compiled, err := compiler.Compile(here)
	if err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	if values == nil {
		values = map[string]any{}
	}
	err = compiled.Validate(values)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		_, text, _ := strings.Cut(shortenMessage(invalid.Error()), "\n")
		return fmt.Errorf("validation against values.schema.json failed:\n%s", text)
	}
	return err
}
