package probe

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

const (
	// maxCost limits the cost of one expression. Kubernetes has the same limit for expressions in CRD schemas.
	maxCost = 1_000_000
	// interruptEvery is the number of loop iterations after which the timeout is checked.
	interruptEvery = 100
)

// Variables of CEL expressions.
const (
	varObjects = "objects"
	varBody    = "body"
)

// newEnv returns the CEL environment: the standard library and optional fields.
func newEnv() (*cel.Env, error) {
	return cel.NewEnv(cel.Variable(varObjects, cel.ListType(cel.DynType)), cel.Variable(varBody, cel.DynType),
		cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true))
}

// evaluate runs a CEL expression. It returns an error if the result is not a boolean.
func (p *Prober) evaluate(ctx context.Context, expression string, variables map[string]any) (bool, error) {
	program, err := p.program(expression)
	if err != nil {
		return false, err
	}
	result, _, err := program.ContextEval(ctx, variables)
	if err != nil {
		return false, fmt.Errorf("evaluate the expression: %w", err)
	}
	is, ok := result.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the expression returned %s, must return a boolean", result.Type().TypeName())
	}
	return is, nil
}

func (p *Prober) program(expression string) (cel.Program, error) {
	p.mu.Lock()
	known := p.programs[expression]
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	parsed, issues := p.env.Compile(expression)
	if issues.Err() != nil {
		return nil, errors.New("compile the expression: " + issues.Errors()[0].Message)
	}
	program, err := p.env.Program(parsed, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(interruptEvery))
	if err != nil {
		return nil, fmt.Errorf("compile the expression: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.programs) >= maxKept {
		clear(p.programs)
	}
	p.programs[expression] = program
	return program, nil
}

func (p *Prober) cel(ctx context.Context, c fleet.CELCheck) (checks.Measurement, error) {
	ctx, end := p.withBudget(ctx)
	defer end()
	objects, err := p.objects(ctx, c)
	if err != nil {
		return checks.Measurement{}, err
	}
	is, err := p.evaluate(ctx, c.Expression, map[string]any{varObjects: objects, varBody: nil})
	switch {
	case err != nil:
		return checks.Measurement{}, err
	case !is:
		return checks.Measurement{
			Verdict: checks.Failure,
			Message: fmt.Sprintf("the expression is false for %d objects", len(objects)),
		}, nil
	}
	return checks.Measurement{Verdict: checks.Success}, nil
}
