package bundle

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// ContentChecks is the name of the component resource that defines a module's checks. The resource is a YAML document
// with a list "checks".
const ContentChecks = "checks"

// Limits for a module's checks. The RolloutPolicy schema has the same limits.
const (
	// MaxChecks limits the number of checks per module. MaxCheckFor limits how long an agent repeats them.
	MaxChecks   = 10
	MaxCheckFor = 7 * 24 * time.Hour
	// MinCheckInterval and MaxCheckTimeout limit the load that a check causes in a runtime.
	MinCheckInterval = 10 * time.Second
	MaxCheckTimeout  = 5 * time.Minute
	// MaxCheckMessageBytes and MaxCheckValueBytes limit the message and the measured value in a check's result.
	MaxCheckMessageBytes = 256
	MaxCheckValueBytes   = 32

	maxCheckNameBytes  = 40
	maxExpressionBytes = 2048
	maxThreshold       = 100
)

// ValidateChecks returns an error for checks that agents refuse to run. Set shipped if the checks come from the
// module's component. Only these checks can start a Job.
func ValidateChecks(checks []fleet.Check, shipped bool) error {
	if len(checks) > MaxChecks {
		return fmt.Errorf("checks: %d checks, must be at most %d", len(checks), MaxChecks)
	}
	seen := map[string]bool{}
	for i, c := range checks {
		if len(c.Name) > maxCheckNameBytes || len(validation.IsDNS1123Label(c.Name)) > 0 {
			return fmt.Errorf("checks[%d].name: %s: must be at most %d lower-case letters, digits and hyphens",
				i, Quote(c.Name, maxCheckNameBytes), maxCheckNameBytes)
		}
		if seen[c.Name] {
			return fmt.Errorf("checks[%d].name: duplicate %s", i, c.Name)
		}
		seen[c.Name] = true
		if err := checkCheck(c, shipped); err != nil {
			return fmt.Errorf("checks[%d] (%s): %w", i, c.Name, err)
		}
	}
	return nil
}

func checkCheck(c fleet.Check, shipped bool) error {
	kinds := 0
	for _, set := range []bool{c.CEL != nil, c.HTTP != nil, c.PromQL != nil, c.Job != nil} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return fmt.Errorf("%d of cel, http, promql and job are set: set exactly one", kinds)
	case shipped && kinds == 0:
		return fmt.Errorf("one of cel, http, promql and job is required")
	case !shipped && c.Job != nil:
		return fmt.Errorf("job: only allowed in the checks of a module's component")
	}
	if d := c.Interval.Duration; d != 0 && d < MinCheckInterval {
		return fmt.Errorf("interval: %s, must be at least %s", d, MinCheckInterval)
	}
	if d := c.Timeout.Duration; d < 0 || d > MaxCheckTimeout {
		return fmt.Errorf("timeout: %s, must be at most %s", d, MaxCheckTimeout)
	}
	for field, threshold := range map[string]int32{
		"successThreshold": c.SuccessThreshold, "failureThreshold": c.FailureThreshold,
	} {
		if threshold < 0 || threshold > maxThreshold {
			return fmt.Errorf("%s: %d, must be 1 to %d", field, threshold, maxThreshold)
		}
	}
	switch {
	case c.CEL != nil:
		return checkCEL(*c.CEL)
	case c.HTTP != nil:
		return checkHTTP(*c.HTTP)
	case c.PromQL != nil:
		return checkPromQL(*c.PromQL)
	case c.Job != nil:
		return checkNamespaced("job.namespace", c.Job.Namespace)
	}
	return nil
}

// checkCEL refuses checks that read Secrets, because even a boolean result in a report reveals part of a Secret's
// value.
func checkCEL(c fleet.CELCheck) error {
	version, err := schema.ParseGroupVersion(c.APIVersion)
	switch {
	case err != nil:
		return fmt.Errorf("cel.apiVersion: %s: must be VERSION or GROUP/VERSION",
			Quote(c.APIVersion, maxCheckNameBytes))
	case version.Group == "" && strings.EqualFold(c.Kind, "Secret"): // API servers also accept the kind "secret"
		return errors.New("cel.kind: a check cannot read Secrets: check an object that reports their state instead")
	}
	return checkExpression("cel.expression", c.Expression, true)
}

func checkHTTP(h fleet.HTTPCheck) error {
	if err := checkPath("http.path", h.Path); err != nil {
		return err
	}
	switch {
	case h.Status != 0 && (h.Status < 100 || h.Status > 599):
		return fmt.Errorf("http.status: %d, must be 100 to 599", h.Status)
	case h.MaxLatency.Duration < 0:
		return fmt.Errorf("http.maxLatency: %s, must not be negative", h.MaxLatency.Duration)
	}
	if err := checkExpression("http.expression", h.Expression, false); err != nil {
		return err
	}
	return checkService("http.service", h.Service)
}

func checkPath(field, path string) error {
	if path != "" && !strings.HasPrefix(path, "/") {
		return fmt.Errorf("%s: %s: must begin with /", field, Quote(path, maxCheckNameBytes))
	}
	return nil
}

// decimal is the pattern for the bounds of a query. The RolloutPolicy schema has the same pattern. It does not match
// NaN, because no value exceeds NaN, so a check with this bound would always pass.
var decimal = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

func checkPromQL(q fleet.PromQLCheck) error {
	if err := checkExpression("promql.query", q.Query, true); err != nil {
		return err
	}
	for field, number := range map[string]string{"promql.max": q.Max, "promql.min": q.Min} {
		if number != "" && (!decimal.MatchString(number) || len(number) > MaxCheckValueBytes) {
			return fmt.Errorf("%s: %s is not a decimal number", field, Quote(number, MaxCheckValueBytes))
		}
	}
	if p := q.MaxIncreasePercent; p != nil && (*p < 0 || *p > 100_000) {
		return fmt.Errorf("promql.maxIncreasePercent: %d, must be 0 to 100000", *p)
	}
	if err := checkPath("promql.path", q.Path); err != nil {
		return err
	}
	if q.Max == "" && q.Min == "" && q.MaxIncreasePercent == nil {
		return fmt.Errorf("promql: one of max, min and maxIncreasePercent is required")
	}
	return checkService("promql.service", q.Service)
}

func checkExpression(field, text string, required bool) error {
	if required && text == "" {
		return fmt.Errorf("%s is required", field)
	}
	if len(text) > maxExpressionBytes {
		return fmt.Errorf("%s: %d bytes, must be at most %d", field, len(text), maxExpressionBytes)
	}
	return nil
}

func checkService(field string, s fleet.ServiceReference) error {
	if err := checkNamespaced(field+".namespace", s.Namespace); err != nil {
		return err
	}
	if err := checkNamespaced(field+".name", s.Name); err != nil {
		return err
	}
	if s.Port < 1 || s.Port > 65535 {
		return fmt.Errorf("%s.port: %d, must be 1 to 65535", field, s.Port)
	}
	if s.Scheme != "" && s.Scheme != "http" && s.Scheme != "https" {
		return fmt.Errorf("%s.scheme: %s, must be http or https", field, Quote(s.Scheme, maxCheckNameBytes))
	}
	return nil
}

func checkNamespaced(field, name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("%s: %s: must be a DNS label", field, Quote(name, validation.DNS1123LabelMaxLength))
	}
	return nil
}
