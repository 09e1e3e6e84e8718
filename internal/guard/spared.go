package guard

import (
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// sparesAgentCRDs reports whether a ValidatingAdmissionPolicy accepts all writes to the agent's CRDs. Each of its
// validations must begin with a comparison that is true for every API group except the policy's own. The policy must
// not contain match conditions, parameters or audit annotations, because it can refuse a request if their evaluation
// fails.
func sparesAgentCRDs(o *unstructured.Unstructured) bool {
	spec, _, err := unstructured.NestedMap(o.Object, "spec")
	if err != nil || o.GetKind() != "ValidatingAdmissionPolicy" {
		return false
	}
	for _, field := range []string{"matchConditions", "paramKind", "auditAnnotations"} {
		if spec[field] != nil {
			return false
		}
	}
	all, problem := parseInterceptors(o)
	if problem != "" || !slices.ContainsFunc(all, interceptor.hasObjects) {
		return false
	}
	validations, err := listAt(o, "spec", "validations")
	return err == nil && len(validations) > 0 && !slices.ContainsFunc(validations, func(entry any) bool {
		validation, _ := entry.(map[string]any)
		expression, _ := validation["expression"].(string)
		return !sparesAgentGroup(expression)
	})
}

// hasObjects reports whether each request that the rules select contains an object. A deletion does not contain an
// object, so object.spec cannot be evaluated.
func (in interceptor) hasObjects() bool {
	return !slices.ContainsFunc(in.allRules(), func(r resourceRule) bool {
		return len(r.Operations) == 0 || slices.ContainsFunc(r.Operations, func(operation string) bool {
			return operation != "CREATE" && operation != "UPDATE"
		})
	})
}

// policyEnv returns the environment for parsing policy expressions.
var policyEnv = sync.OnceValues(func() (*cel.Env, error) { return cel.NewEnv(cel.OptionalTypes()) })

// sparesAgentGroup reports whether a CEL expression has the format object.spec.group != 'GROUP' || …, with a group
// other than the agent's. CEL evaluates the other operands only if the first one is false.
func sparesAgentGroup(expression string) bool {
	env, err := policyEnv()
	if err != nil {
		return false
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		return false
	}
	first := parsed.NativeRep().Expr()
	for first.Kind() == ast.CallKind && first.AsCall().FunctionName() == operators.LogicalOr {
		first = first.AsCall().Args()[0]
	}
	if first.Kind() != ast.CallKind || first.AsCall().FunctionName() != operators.NotEquals {
		return false
	}
	left, right := first.AsCall().Args()[0], first.AsCall().Args()[1]
	if left.Kind() == ast.LiteralKind {
		left, right = right, left
	}
	if right.Kind() != ast.LiteralKind || !isGroupOfObject(left) {
		return false
	}
	group, isText := right.AsLiteral().(types.String)
	return isText && string(group) != v1beta2.GroupVersion.Group
}

// isGroupOfObject reports whether an expression is object.spec.group.
func isGroupOfObject(e ast.Expr) bool {
	for _, field := range []string{"group", "spec"} {
		if e.Kind() != ast.SelectKind || e.AsSelect().IsTestOnly() || e.AsSelect().FieldName() != field {
			return false
		}
		e = e.AsSelect().Operand()
	}
	return e.Kind() == ast.IdentKind && e.AsIdent() == "object"
}
