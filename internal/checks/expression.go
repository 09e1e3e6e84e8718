package checks

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/kyma-pull/kyma-pull/bundle"
)

// Variables in CEL expressions.
const (
	VarObjects = "objects"
	VarBody    = "body"
)

const (
	// maxCost limits the cost of one evaluation. Kubernetes has the same limit for expressions in CRD schemas.
	maxCost = 1_000_000
	// interruptEvery is the number of loop iterations after which the timeout is checked.
	interruptEvery = 100
	// maxNesting limits the nesting of lists, maps, loops and function calls, because each level can add a level to a
	// value's type. The time for the type check grows with the third power of the type's depth.
	maxNesting = 32
)

var expressionEnv = sync.OnceValues(newEnv)

// newEnv returns the CEL environment: the standard library and optional fields.
func newEnv() (*cel.Env, error) {
	return cel.NewEnv(cel.Variable(VarObjects, cel.ListType(cel.DynType)), cel.Variable(VarBody, cel.DynType),
		cel.OptionalTypes(), cel.Macros(cel.ReceiverMacro("optMap", 2, expandOptMap(true)),
			cel.ReceiverMacro("optFlatMap", 2, expandOptMap(false))),
		cel.CrossTypeNumericComparisons(true), cel.DefaultUTCTimeZone(true))
}

// Compile compiles a check's CEL expression. The agent and the policy validation use it, so the publisher refuses
// exactly the expressions that agents cannot run.
func Compile(expression string) (cel.Program, error) {
	env, err := expressionEnv()
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(expression)
	if err := firstIssue(issues); err != nil {
		return nil, err
	}
	if n := nesting(ast.NavigateAST(parsed.NativeRep())); n > maxNesting {
		return nil, fmt.Errorf("lists, maps, loops and calls are nested %d levels deep, must be at most %d", n, maxNesting)
	}
	checked, issues := env.Check(parsed)
	if err := firstIssue(issues); err != nil {
		return nil, err
	}
	switch checked.OutputType().Kind() {
	case types.BoolKind, types.DynKind, types.AnyKind, types.TypeParamKind:
	default:
		return nil, fmt.Errorf("the expression returns %s, must return a boolean", checked.OutputType())
	}
	return env.Program(checked, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(interruptEvery))
}

func firstIssue(issues *cel.Issues) error {
	if issues.Err() == nil {
		return nil
	}
	all := issues.Errors()
	if len(all) == 0 {
		return errors.New(bundle.Bounded(issues.Err().Error(), bundle.MaxCheckMessageBytes))
	}
	at := all[0].Location
	return errors.New(bundle.Bounded(fmt.Sprintf("line %d, column %d: %s", at.Line(), at.Column()+1, all[0].Message),
		bundle.MaxCheckMessageBytes))
}

// nesting returns the number of levels of lists, maps, loops and function calls. Operators do not count.
func nesting(e ast.NavigableExpr) (levels int) {
	for _, child := range e.Children() {
		levels = max(levels, nesting(child))
	}
	switch e.Kind() {
	case ast.ListKind, ast.MapKind, ast.StructKind, ast.ComprehensionKind:
		levels++
	case ast.CallKind:
		if strings.Trim(e.AsCall().FunctionName(), "_!-@") == e.AsCall().FunctionName() {
			levels++
		}
	}
	return levels
}

// optTarget is the name of the variable that contains the receiver of optMap. Expressions cannot contain this name.
const optTarget = "@optTarget"

// expandOptMap returns a macro that replaces cel-go's optMap, or optFlatMap if wrap is false. cel-go's macros repeat
// their receiver, so that a chain of n calls has size 2^n. This macro assigns the receiver to a variable.
func expandOptMap(wrap bool) cel.MacroFactory {
	return func(f cel.MacroExprFactory, receiver ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		if args[0].Kind() != ast.IdentKind {
			return nil, f.NewError(args[0].ID(), "the variable must be a simple identifier")
		}
		target := func() ast.Expr { return f.NewIdent(optTarget) }
		mapped := assign(f, args[0].AsIdent(), f.NewMemberCall("value", target()), args[1])
		if wrap {
			mapped = f.NewCall("optional.of", mapped)
		}
		return assign(f, optTarget, receiver, f.NewCall(operators.Conditional, f.NewMemberCall("hasValue", target()),
			mapped, f.NewCall("optional.none"))), nil
	}
}

// assign returns an expression that evaluates the expression result with a variable. The variable has the given name
// and value.
func assign(f cel.MacroExprFactory, name string, value, result ast.Expr) ast.Expr {
	return f.NewComprehension(f.NewList(), "@unused", name, value, f.NewLiteral(types.False), f.NewIdent(name), result)
}
