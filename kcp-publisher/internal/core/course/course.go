// Package course validates the course of a RolloutPolicy or Rollout beyond the schema of its kind. It performs no I/O.
package course

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/checks"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// Validate returns the first field of a new course with which no rollout could prove a version: a field that
// rollout.CheckCourse refuses, or a check that is always Inconclusive in the runtimes.
//
// Rollouts that exist already are only checked with rollout.CheckCourse, so that they can still end or roll back.
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
