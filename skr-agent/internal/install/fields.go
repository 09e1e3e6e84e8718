package install

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/core/excerpt"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/account"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/outcome"
)

// dropForeignFields removes fields that other programs set: rules of aggregated ClusterRoles, the holder of a Lease,
// and injected CA bundles. Server-side apply then keeps their live values. It returns an error if the annotation
// ignore-fields is invalid.
func dropForeignFields(o *unstructured.Unstructured) error {
	if o.GetKind() == "ClusterRole" && o.GroupVersionKind().Group == "rbac.authorization.k8s.io" {
		if rule, _, _ := unstructured.NestedMap(o.Object, "aggregationRule"); rule != nil {
			unstructured.RemoveNestedField(o.Object, "rules")
		}
	}
	if gvk := o.GroupVersionKind(); gvk.Group == "coordination.k8s.io" && gvk.Kind == "Lease" {
		for _, field := range []string{"holderIdentity", "acquireTime", "renewTime", "leaseTransitions"} {
			unstructured.RemoveNestedField(o.Object, "spec", field)
		}
	}
	injected := hasInjector(o)
	for _, holder := range caHolders(o) {
		if bundle, ok := holder["caBundle"].(string); ok && (injected || isPlaceholder(bundle)) {
			delete(holder, "caBundle")
		}
	}
	_, err := ignoredFields(o)
	return err
}

// fieldsOf returns the finding about unknown fields in the objects of a plan. The API server would refuse an object
// with such a field, so the agent applies the object without the field. fieldsOf returns nil if no field is unknown and
// the Manifest does not have the condition Fields.
func (i *Installer) fieldsOf(m *v1beta2.Manifest, p plan) *outcome.Finding {
	before := meta.FindStatusCondition(m.Status.Conditions, v1beta2.ConditionFields)
	if len(p.ignored) == 0 {
		if before == nil {
			return nil
		}
		return &outcome.Finding{OK: true, Reason: v1beta2.ReasonFieldsKnown, Message: "the objects have no unknown fields"}
	}
	found := &outcome.Finding{Reason: v1beta2.ReasonUnknownFields, Message: outcome.Clip("ignored " + excerpt.FirstFew(p.ignored))}
	if before == nil || before.Message != found.Message {
		i.events.Eventf(m, nil, "Warning", found.Reason, "Install", "%s", found.Message)
	}
	return found
}

// caHolders returns the parts of an object that can contain a field caBundle, such as the clientConfig of a webhook.
func caHolders(o *unstructured.Unstructured) []map[string]any {
	var holders []map[string]any
	add := func(from map[string]any, path ...string) {
		if holder, found, err := unstructured.NestedFieldNoCopy(from, path...); found && err == nil {
			if fields, ok := holder.(map[string]any); ok {
				holders = append(holders, fields)
			}
		}
	}
	switch gvk := o.GroupVersionKind(); gvk.GroupKind() {
	case schema.GroupKind{Group: guard.AdmissionGroup, Kind: "ValidatingWebhookConfiguration"},
		schema.GroupKind{Group: guard.AdmissionGroup, Kind: "MutatingWebhookConfiguration"}:
		webhooks, _ := o.Object["webhooks"].([]any)
		for _, entry := range webhooks {
			if webhook, ok := entry.(map[string]any); ok {
				add(webhook, "clientConfig")
			}
		}
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		add(o.Object, "spec", "conversion", "webhook", "clientConfig")
	case schema.GroupKind{Group: "apiregistration.k8s.io", Kind: "APIService"}:
		add(o.Object, "spec")
	}
	return holders
}

// isPlaceholder reports whether a CA bundle contains no certificate. Generators write placeholders such as Cg== (a
// line break) for an injector.
func isPlaceholder(bundle string) bool {
	decoded, err := base64.StdEncoding.DecodeString(bundle)
	if err != nil {
		return false // not a placeholder; the API server reports the invalid value
	}
	block, _ := pem.Decode(decoded)
	return block == nil || len(block.Bytes) == 0
}

// hasInjector reports whether an annotation requests the injection of a CA bundle.
//
// Source: cert-manager documentation, CA Injector; OpenShift documentation, service CA certificates.
func hasInjector(o *unstructured.Unstructured) bool {
	for annotation, value := range o.GetAnnotations() {
		if strings.HasPrefix(annotation, "cert-manager.io/inject-") ||
			annotation == "service.beta.openshift.io/inject-cabundle" && value == "true" {
			return true
		}
	}
	return false
}

// pointer is a JSON pointer, split into its parts.
type pointer []string

func (p pointer) String() string { return "/" + strings.Join(p, "/") }

const maxIgnoredFields = 50

// ignoredFields returns the fields in an object's annotation ignore-fields, which the agent sets only on creation.
// The annotation contains JSON pointers, as a JSON array or separated by commas or whitespace.
//
// Source: RFC 6901.
func ignoredFields(o *unstructured.Unstructured) ([]pointer, error) {
	text := strings.TrimSpace(o.GetAnnotations()[v1beta2.AnnotationIgnoreFields])
	if text == "" {
		return nil, nil
	}
	var all []string
	if strings.HasPrefix(text, "[") {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return nil,
				fmt.Errorf("%s: annotation %s is not a JSON array of pointers: %w", guard.KeyOf(o),
					v1beta2.AnnotationIgnoreFields, err)
		}
	} else {
		all = strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	}
	if len(all) > maxIgnoredFields {
		return nil,
			fmt.Errorf("%s: annotation %s has %d pointers: use at most %d", guard.KeyOf(o),
				v1beta2.AnnotationIgnoreFields, len(all), maxIgnoredFields)
	}
	pointers := make([]pointer, len(all))
	for n, text := range all {
		parts := strings.Split(text, "/")
		if parts[0] != "" || len(parts) < 2 || slices.Contains(parts[1:], "") {
			return nil,
				fmt.Errorf("%s: annotation %s: %q is not a JSON pointer such as /spec/replicas", guard.KeyOf(o),
					v1beta2.AnnotationIgnoreFields, text)
		}
		for i, part := range parts {
			parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		}
		if pointers[n] = parts[1:]; isIdentity(pointers[n]) {
			return nil,
				fmt.Errorf("%s: annotation %s: %s identifies the object and its owner: remove it from the list",
					guard.KeyOf(o), v1beta2.AnnotationIgnoreFields, text)
		}
	}
	return pointers, nil
}

// isIdentity reports whether a pointer refers to fields that identify an object.
func isIdentity(p pointer) bool {
	switch {
	case p[0] == "apiVersion" || p[0] == "kind" || len(p) == 1 && p[0] == "metadata":
		return true
	case p[0] != "metadata":
		return false
	case p[1] != "labels" && p[1] != "annotations":
		return true
	}
	return len(p) == 2 ||
		slices.Contains(
			[]string{
				v1beta2.LabelManagedBy, v1beta2.LabelModuleName, v1beta2.AnnotationOwnedBy,
				v1beta2.AnnotationIgnoreFields,
			},
			p[2],
		)
}

// keepLive returns copies of objects in which ignored fields have their live values. In autoscaled workloads,
// spec.replicas also has its live value.
func (i *Installer) keepLive(
	ctx context.Context, a *account.Account, stage []*unstructured.Unstructured, p plan,
) ([]*unstructured.Unstructured, error) {
	kept, dropped := slices.Clone(stage), object.KeysOf(p.prune)
	for n, o := range stage {
		pointers, err := ignoredFields(o)
		if err != nil {
			return nil, err
		}
		replicas, scalable, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		if len(pointers) == 0 && !scalable || p.absent.Has(guard.KeyOf(o)) {
			continue
		}
		live, err := a.Get(ctx, object.ResourceOf(o))
		if live == nil || err != nil {
			if err != nil && !account.IsUnconverted(err) {
				return nil, err
			}
			// Skip a missing or unreadable object. If it is unreadable, applying it returns the same error.
			continue
		}
		if now := object.Integer(live, 1, "spec", "replicas"); scalable && now != replicas {
			scaled, err := i.actors[""].IsAutoscaled(ctx, object.ResourceOf(o), now, dropped)
			if err != nil {
				return nil, err
			}
			if scaled {
				pointers = append(pointers, pointer{"spec", "replicas"})
			}
		}
		if len(pointers) == 0 {
			continue
		}
		kept[n] = o.DeepCopy()
		for _, p := range pointers {
			takeLive(kept[n], live, p, i.FieldManager)
		}
	}
	return kept, nil
}

// takeLive sets a field of an object to its live value. If another field manager owns the field, takeLive removes the
// field instead, so that the apply does not overwrite concurrent changes.
func takeLive(o, live *unstructured.Unstructured, p pointer, manager string) {
	value, found := at(live.Object, p)
	if !found || isOwnedByOther(live.GetManagedFields(), p, manager) {
		set(o.Object, p, nil, false)
		return
	}
	set(o.Object, p, value, true)
}

// isOwnedByOther reports whether another field manager owns the field at a pointer. It returns false for pointers into
// lists.
func isOwnedByOther(entries []metav1.ManagedFieldsEntry, p pointer, manager string) bool {
	for _, e := range entries {
		if e.FieldsV1 == nil ||
			e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		path := make([]string, len(p))
		for n, part := range p {
			path[n] = "f:" + part
		}
		if _, found, err := unstructured.NestedFieldNoCopy(fields, path...); found && err == nil {
			return true
		}
	}
	return false
}

func at(value any, p pointer) (any, bool) {
	for _, part := range p {
		switch v := value.(type) {
		case map[string]any:
			next, ok := v[part]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil || n < 0 || n >= len(v) {
				return nil, false
			}
			value = v[n]
		default:
			return nil, false
		}
	}
	return value, true
}

// set sets or removes the field at a pointer. It creates missing maps, but no list items.
func set(object map[string]any, p pointer, value any, present bool) {
	last := p[len(p)-1]
	for n, part := range p[:len(p)-1] {
		next, found := at(object, pointer{part})
		if !found && present {
			next = map[string]any{}
			object[part] = next
		}
		switch v := next.(type) {
		case map[string]any:
			object = v
		case []any:
			index, err := strconv.Atoi(p[n+1])
			if err != nil || index < 0 || index >= len(v) {
				return
			}
			if n+1 == len(p)-1 {
				if present {
					v[index] = value
				}
				return
			}
			item, ok := v[index].(map[string]any)
			if !ok {
				return
			}
			set(item, p[n+2:], value, present)
			return
		default:
			return
		}
	}
	if present {
		object[last] = value
	} else {
		delete(object, last)
	}
}
