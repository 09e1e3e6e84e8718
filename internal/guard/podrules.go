package guard

// listPodRules returns the rules for pods, and for objects that affect pods.
func listPodRules() []rule {
	return []rule{
		{name: "agent-pods", check: checkBuiltInReferences, policies: podReferencePolicies},
		{
			name: "agent-references",
			contentOnlyReason: "an admission policy cannot search all fields of custom resources; it checks the pods " +
				"that their operators create",
			check: checkAgentAccount,
		},
		{
			name:  "pods-like-agent",
			check: checkPodLabels,
			policies: func() []policyCheck {
				return []policyCheck{
					{
						policy: policyHome,
						comment: "The agent's Service and Deployment would select pods with this label. Kubernetes copies " +
							"labels of a binding to the pod.",
						expression: celExpression(`
!variables.written ||
!((request.resource.resource in ['pods', 'bindings', 'replicasets'] ? [object] : []) + variables.templates)
.exists(o, o.?metadata.?labels[?<label>].orValue('') == <agent>)`,
							"label", celText(LabelApp), "agent", celText(AgentName)),
						message: "only pods and ReplicaSets of skr-agent may have the label " + LabelApp + "=" + AgentName,
					},
					{
						policy: policyHome,
						comment: "Kubernetes creates pods from the content of a ControllerRevision, and ignores the case of its " +
							"field names.",
						expression: celExpression(`
!(variables.written && request.resource.resource == <revisions>) || type(object.?data.orValue({})) == map &&
object.?data.orValue({}).all(f, !f.matches('(?i)^spec$') ||
type(object.data[f]) == map && object.data[f].all(g, !g.matches('(?i)^template$')))`,
							"revisions", celText(controllerRevisionKind.resource)),
						message: "only Kubernetes writes ControllerRevisions",
					},
				}
			},
		},
		{
			name:  "agent-scale",
			check: checkAutoscaler,
			policies: func() []policyCheck {
				var all string
				for _, a := range autoscalers {
					if all != "" {
						all += " &&\n"
					}
					all += celExpression(`!(<requested> && object != null && <target>.orValue('').matches(variables.own))`,
						"requested", a.kind.requested(), "target", celFields("object", "spec", a.field, "name"))
				}
				return []policyCheck{{policy: policyHome, expression: all, message: "only operators scale skr-agent"}}
			},
		},
		{
			name:  "agent-disruption",
			check: checkDisruptionBudget,
			policies: func() []policyCheck {
				return []policyCheck{{
					policy: policyHome,
					comment: "Kubernetes evicts no pod that two budgets select. The values of the labels in variables.open are " +
						"not fixed.",
					expression: celExpression(`
!(<requested> && object != null &&
object.?spec.?selector.hasValue() &&
object.spec.selector.?matchLabels.orValue({}).all(l, l.matches(variables.open) ||
variables.podLabels[?l].orValue('') == object.spec.selector.matchLabels[l] && l in variables.podLabels) &&
object.spec.selector.?matchExpressions.orValue([]).all(e, e.key.matches(variables.open) ||
(e.operator in ['In', 'Exists'] ?
e.key in variables.podLabels && (e.operator == 'Exists' || variables.podLabels[e.key] in e.?values.orValue([])) :
!(e.key in variables.podLabels) || e.operator == 'NotIn' && !(variables.podLabels[e.key] in e.?values.orValue([])))))`,
						"requested", budgetKind.requested()),
					message: "select the module's pods by a label that skr-agent's pods do not have: a second PodDisruptionBudget " +
						"for skr-agent would block the drain of its node",
				}}
			},
		},
	}
}

func podReferencePolicies() []policyCheck {
	return []policyCheck{
		{
			policy: policyHome,
			expression: celExpression(`
!variables.pods.exists(p, [p.?serviceAccountName, p.?serviceAccount].exists(a, a.orValue('').matches(variables.own)))`),
			message: "pods may not run as skr-agent",
		},
		{
			policy: policyHome,
			expression: celExpression(`
!variables.pods.exists(p, p.?volumes.orValue([]).exists(v,
[v.?secret.?secretName, v.?azureFile.?secretName, v.?csi.?nodePublishSecretRef.?name,
v.?flexVolume.?secretRef.?name, v.?iscsi.?secretRef.?name, v.?cephfs.?secretRef.?name, v.?rbd.?secretRef.?name,
v.?scaleIO.?secretRef.?name, v.?storageos.?secretRef.?name,
v.?cinder.?secretRef.?name].exists(s, s.orValue('').matches(variables.own)) ||
v.?projected.?sources.orValue([]).exists(s, s.?secret.?name.orValue('').matches(variables.own)))) &&
!(variables.pods + (variables.written && request.resource.resource == <accounts-resource> ? [object] : []))
.exists(p, p.?imagePullSecrets.orValue([]).exists(s, s.?name.orValue('').matches(variables.own))) &&
!(<account-requested> && object != null &&
object.?secrets.orValue([]).exists(s, s.?name.orValue('').matches(variables.own))) &&
!variables.containers.exists(p, p.exists(kind, kind.exists(c,
c.?envFrom.orValue([]).exists(e, e.?secretRef.?name.orValue('').matches(variables.own)) ||
c.?env.orValue([]).exists(e, e.?valueFrom.?secretKeyRef.?name.orValue('').matches(variables.own)))))`,
				"accounts-resource", celText(serviceAccountKind.resource), "account-requested", serviceAccountKind.requested()),
			message: "pods may not read the Secrets of skr-agent",
		},
		{
			policy: policyHome,
			expression: celExpression(`
!(<requested> && object != null &&
object.?spec.?tls.orValue([]).exists(t, t.?secretName.orValue('').matches(variables.own)))`,
				"requested", ingressKind.requested()),
			message: "ingress controllers may not read the Secrets of skr-agent",
		},
		{
			policy: policyHome,
			expression: celExpression(`
!(<requested> && object != null &&
object.metadata.?annotations[?<annotation>].orValue('').matches(variables.own))`,
				"requested", secretKind.requested(), "annotation", celText(annotationTokenAccount)),
			message: "only skr-agent may get tokens of its ServiceAccount",
		},
	}
}
