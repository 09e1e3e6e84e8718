package probe

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/internal/checks"
)

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
	program, err := checks.Compile(expression)
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
	is, err := p.evaluate(ctx, c.Expression, map[string]any{checks.VarObjects: objects, checks.VarBody: nil})
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
