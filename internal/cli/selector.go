package cli

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
)

// ParseSelector parses a flag's label selector.
func ParseSelector(flag, value string) (labels.Selector, error) {
	selector, err := labels.Parse(value)
	if err != nil {
		return nil, Usage(fmt.Errorf("%s %q: %w; use KEY=VALUE, 'KEY in (A,B)', KEY or '!KEY', separated by commas",
			flag, value, err))
	}
	return selector, nil
}
