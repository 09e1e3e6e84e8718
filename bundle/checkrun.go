package bundle

import (
	"errors"
	"fmt"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

// CheckRun is a request to run a module's checks once, independently of a rollout. Job checks are not allowed.
type CheckRun struct {
	// ID identifies the request. The agent's result has the same ID.
	ID string `json:"id"`
	// Module is the name of the module to check. The agent runs the checks with this module's permissions.
	Module string `json:"module"`
	// Checks are sorted by name.
	Checks []fleet.Check `json:"checks"`
}

const maxCheckRunBytes = 64 << 10

// ParseCheckRun parses the annotation on a Kyma that requests a check run. It returns nil for an empty text.
func ParseCheckRun(text string) (*CheckRun, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxCheckRunBytes {
		return nil, fmt.Errorf("check run is %d bytes, must be at most %d", len(text), maxCheckRunBytes)
	}
	run := &CheckRun{}
	if err := decodeStrict([]byte(text), run); err != nil {
		return nil, err
	}
	return run, run.check()
}

func (r *CheckRun) check() error {
	if r == nil {
		return nil
	}
	switch {
	case r.ID == "" || len(r.ID) > MaxVersionBytes:
		return fmt.Errorf("check run: id: %d bytes, must be 1 to %d", len(r.ID), MaxVersionBytes)
	case r.Module == "" || len(r.Module) > MaxModuleNameBytes:
		return fmt.Errorf("check run: module: %d bytes, must be 1 to %d", len(r.Module), MaxModuleNameBytes)
	case len(r.Checks) == 0:
		return errors.New("check run: checks: at least one is required")
	}
	if err := ValidateChecks(r.Checks, false); err != nil {
		return fmt.Errorf("check run: %w", err)
	}
	return nil
}
