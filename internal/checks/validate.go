package checks

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// Validate returns an error for the first field that makes a check useless. This is an expression that does not
// compile, or a latency limit that cannot be exceeded. The argument at is the path of the checks. bundle.ValidateChecks
// checks all other fields.
func Validate(checks []fleet.Check, at *field.Path) *field.Error {
	for i, c := range checks {
		if err := validateCheck(c, at.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func validateCheck(c fleet.Check, at *field.Path) *field.Error {
	expression, path := "", at.Child("cel", "expression")
	switch {
	case c.CEL != nil:
		expression = c.CEL.Expression
	case c.HTTP != nil:
		expression, path = c.HTTP.Expression, at.Child("http", "expression")
		if problem := latencyProblem(c); problem != "" {
			return field.Invalid(at.Child("http", "maxLatency"), c.HTTP.MaxLatency.Duration.String(), problem)
		}
	}
	if expression == "" {
		return nil
	}
	if _, err := Compile(expression); err != nil {
		return field.Invalid(path, expression, err.Error())
	}
	return nil
}

// latencyProblem returns the reason why an HTTP check's maxLatency has no effect, or "" if it has an effect. A response
// that exceeds the timeout is Inconclusive, so a larger maxLatency could never fail the check.
func latencyProblem(c fleet.Check) string {
	if c.HTTP == nil || c.HTTP.MaxLatency.Duration == 0 {
		return ""
	}
	timeout := cmp.Or(c.Timeout.Duration, DefaultTimeout)
	if c.HTTP.MaxLatency.Duration < timeout {
		return ""
	}
	return fmt.Sprintf("maxLatency is %s, must be less than timeout, which is %s", c.HTTP.MaxLatency.Duration, timeout)
}
