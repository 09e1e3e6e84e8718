package guard

// policyAgent checks the requests from the agent's own ServiceAccount. RBAC cannot limit the types of Secrets or the
// fields of a Deployment. Without this policy, a client with the agent's token could get tokens of all ServiceAccounts
// in namespaces where the agent creates Secrets, or read Secrets through the agent's own Deployment.
//
// The rules compare a request with the agent's permissions, so they work with every role in the chart.
const policyAgent policyName = "skr-agent-accounts"

const typeAccountToken = "kubernetes.io/service-account-token"

var deploymentKind = protectedKind{"apps", "Deployment", "deployments"}

var (
	secretWrites       = requestMatch{[]string{secretKind.group}, []string{secretKind.resource}, writes, inAnyNamespace}
	deploymentsUpdates = requestMatch{
		[]string{deploymentKind.group}, []string{deploymentKind.resource}, []string{"UPDATE"}, inAnyNamespace,
	}
)

// agentVariables returns the variables of policyAgent.
func agentVariables() []policyVariable {
	return []policyVariable{
		{
			name: "account", comment: "The ServiceAccount of a Secret with a token.",
			expression: celExpression(`object.metadata.?annotations[?<account>].orValue('')`,
				"account", celText(annotationTokenAccount)),
		},
		ownVariable(),
		{
			name: "specs", comment: "The spec of a Deployment before and after the change, without its template.",
			expression: celExpression(`!(<requested>) ? [] : [oldObject, object].map(d, d.spec)`,
				"requested", deploymentKind.requested()),
		},
	}
}

// listOwnRequestRules returns the rules for requests from the agent.
func listOwnRequestRules() []rule {
	return []rule{
		{
			name: "agent-tokens",
			policyOnlyReason: "a module may contain tokens of its own ServiceAccounts. Rule agent-pods refuses tokens of " +
				"the agent in content",
			policies: func() []policyCheck {
				return []policyCheck{{
					policy: policyAgent, requests: []requestMatch{secretWrites},
					comment: "A Secret must not contain a token that the agent could not request.",
					expression: celExpression(`
!(<requested>) ||
object.?type.orValue('') != <token> && !(<account> in object.metadata.?annotations.orValue({})) ||
!variables.account.matches(variables.own) &&
authorizer.group('').resource('serviceaccounts').subresource('token').namespace(request.namespace)
.name(variables.account).check('create').allowed()`,
						"requested", secretKind.requested(), "token", celText(typeAccountToken),
						"account", celText(annotationTokenAccount)),
					message: "skr-agent does not get tokens of ServiceAccounts; install the module with a ServiceAccount of its " +
						"own, or allow skr-agent to create serviceaccounts/token",
				}}
			},
		},
		{
			name:             "agent-deployment",
			policyOnlyReason: "rule agent-object refuses the agent's Deployment in content",
			policies: func() []policyCheck {
				return []policyCheck{{
					policy: policyAgent, requests: []requestMatch{deploymentsUpdates},
					comment: "Other fields of a pod select its ServiceAccount and the Secrets that it reads.",
					expression: celExpression(`
variables.specs.size() == 0 ||
variables.specs.all(one, variables.specs.all(other,
one.all(f, f == 'template' || one[f] == other[?f].orValue(null)) &&
one.template.all(f, f == 'spec' || one.template[f] == other.template[?f].orValue(null)) &&
one.template.spec.all(f, f == 'containers' || one.template.spec[f] == other.template.spec[?f].orValue(null)) &&
one.template.spec.containers.all(c, other.template.spec.containers.exists(o,
c.all(f, f == 'image' || c[f] == o[?f].orValue(null)))))) ||
authorizer.group('apps').resource('deployments').namespace(request.namespace).check('create').allowed()`),
					message: "skr-agent can change only the image of its Deployment",
				}}
			},
		},
	}
}
