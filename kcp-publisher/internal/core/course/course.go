// Package course validates the course (the waves and failure settings) in a RolloutPolicy or Rollout. It finds problems
// that the CRD schema cannot detect. It does not perform I/O.
package course

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Validate returns an error for the first field of a new course that would prevent rollouts from proving a version: a
// field that rollout.CheckCourse refuses, or a check that is always Inconclusive.
//
// Existing rollouts are checked only with rollout.CheckCourse, so that they can still end or roll back.
func Validate(c fleet.Course) *field.Error {
	spec := field.NewPath("spec")
	if err := rollout.CheckCourse(c); err != nil {
		return &field.Error{Type: field.ErrorTypeInvalid, Field: spec.String(), Detail: err.Error()}
	}
	for i, w := range c.Waves {
		if err := checks.Validate(w.Checks, spec.Child("waves").Index(i).Child("checks")); err != nil {
			return err
		}
	}
	return nil
}

// Warnings returns a warning for each wave whose checks can stop before the end of its soak time.
func Warnings(c fleet.Course) (warnings []string) {
	for i, w := range c.Waves {
		if len(w.Checks) > 0 && w.Soak.Duration > bundle.MaxCheckFor-w.Deadline.Duration {
			warnings = append(warnings, fmt.Sprintf("spec.waves[%d].soak: agents run checks for at most %s after the "+
				"module is ready, so passed checks end before the soak does", i, bundle.MaxCheckFor))
		}
	}
	return warnings
}
