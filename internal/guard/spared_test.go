package guard

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// safeUpgrades is the admission policy in gateway-api 1.6.0-rc.1 with its binding, without some annotations.
const safeUpgrades = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: safe-upgrades.gateway.networking.k8s.io}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [apiextensions.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: ["*"]}
  validations:
  - expression: "object.spec.group != 'gateway.networking.k8s.io' || oldObject == null"
    reason: Invalid
  - expression: "object.spec.group != 'gateway.networking.k8s.io' || object.spec.scope == 'Cluster'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: safe-upgrades.gateway.networking.k8s.io}
spec:
  policyName: safe-upgrades.gateway.networking.k8s.io
  validationActions: [Deny]
  matchResources:
    resourceRules:
    - {apiGroups: [apiextensions.k8s.io], apiVersions: [v1], resources: [customresourcedefinitions]}
`

func TestPolicyForCRDsInItsOwnGroupIsAccepted(t *testing.T) {
	require.NoError(t, Check(objects(t, safeUpgrades), home))
	const last, first = "object.spec.group != 'gateway.networking.k8s.io' || object.spec.scope == 'Cluster'",
		"object.spec.group != 'gateway.networking.k8s.io' || oldObject == null"
	valid := strings.Replace(safeUpgrades, first, "'gateway.networking.k8s.io' != object.spec.group", 1)
	require.NoError(t, Check(objects(t, valid), home))
	for name, change := range map[string][2]string{
		"agent's group":                   {last, "object.spec.group != 'operator.kyma-project.io' || false"},
		"equality":                        {last, "object.spec.group == 'gateway.networking.k8s.io' || false"},
		"conjunction":                     {last, "object.spec.group != 'gateway.networking.k8s.io' && false"},
		"comparison in second operand":    {last, "oldObject == null || object.spec.group != 'gateway.networking.k8s.io'"},
		"condition":                       {last, "object.spec.group != 'gateway.networking.k8s.io' ? false : true"},
		"comparison of a different field": {last, "object.spec.scope != 'Cluster' || false"},
		"field of the old object":         {last, "oldObject.spec.group != 'gateway.networking.k8s.io' || false"},
		"comparison with a variable":      {last, "object.spec.group != variables.group || false"},
		"existence of the field":          {last, "has(object.spec.group) != 'a' || false"},
		"negation":                        {last, "!(object.spec.group != 'gateway.networking.k8s.io' || false)"},
		"unreadable expression":           {last, "object.spec.group != "},
		"no expression":                   {last, ""},
		"deletions":                       {"operations: [CREATE, UPDATE]", "operations: ['*']"},
		"default operations":              {"operations: [CREATE, UPDATE]", "operations: []"},
		"parameters":                      {"  failurePolicy: Fail", "  paramKind: {apiVersion: v1, kind: ConfigMap}"},
		"match conditions":                {"  failurePolicy: Fail", "  matchConditions: [{name: a, expression: a}]"},
		"audit annotations":               {"  failurePolicy: Fail", "  auditAnnotations: [{key: a, valueExpression: a}]"},
		"policy that changes objects":     {"kind: ValidatingAdmissionPolicy\n", "kind: MutatingAdmissionPolicy\n"},
		"rule for more resources": {
			"resources: [\"*\"]}", "resources: [\"*\"]}\n    - {apiGroups: [''], operations: [CREATE], resources: [secrets]}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(valid, change[0], change[1], 1)
			require.NotEqual(t, valid, changed)
			var refusal *Refusal
			require.ErrorAs(t, Check(objects(t, changed), home), &refusal)
			require.Equal(t, ruleInterception, refusal.Rule)
		})
	}
}
