package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/disclosure"
)

// WithheldObject is a catalog object that is not published in bundles.
type WithheldObject struct {
	// Kind is ModuleTemplate or ModuleReleaseMeta.
	Kind string
	Key  types.NamespacedName
	UID  types.UID
	// Err is the reason why the object is not published. It names the object and the field.
	Err error
}

// WithheldObjects returns the catalog objects that are not published: first the ModuleReleaseMetas, sorted by module
// name, then the ModuleTemplates, sorted by namespace and name.
func (s *Snapshot) WithheldObjects() []WithheldObject {
	var all []WithheldObject
	for _, name := range s.moduleNames() {
		if o := s.metas[name]; o.withheldReason != nil {
			all = append(all, newWithheld("ModuleReleaseMeta", &o.meta, o.withheldReason))
		}
	}
	for _, t := range s.templates {
		if t.withheldReason != nil {
			all = append(all, newWithheld("ModuleTemplate", t, t.withheldReason))
		}
	}
	return all
}

func newWithheld(kind string, object metav1.Object, reason error) WithheldObject {
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	return WithheldObject{Kind: kind, Key: key, UID: object.GetUID(), Err: reason}
}

// CheckTemplate returns an error if agents would refuse the catalog entry for this ModuleTemplate.
func CheckTemplate(object *v1beta2.ModuleTemplate) error {
	data, err := encodeTemplate(object)
	if err != nil {
		return err
	}
	return bundle.CheckCatalogEntry(data)
}

// HasSameEntry reports whether two versions of a ModuleTemplate have the same catalog entry.
func HasSameEntry(before, after *v1beta2.ModuleTemplate) bool {
	old, errOld := encodeTemplate(before)
	next, errNext := encodeTemplate(after)
	return errOld == nil && errNext == nil && bytes.Equal(old, next)
}

func encodeTemplate(object *v1beta2.ModuleTemplate) ([]byte, error) {
	spec := object.Spec
	if len(spec.Descriptor.Raw) == 0 {
		spec.Descriptor.Raw = nil // JSON encoding fails for an empty Raw that is not nil
	}
	e, err := newEntry(&object.ObjectMeta, spec)
	if err != nil {
		return nil, err
	}
	return json.Marshal(e)
}

// measureEntry returns the size of an encoded catalog entry in bytes. withheld is the reason why bundles must omit the
// entry, or nil. problem is set if the entry cannot be encoded or decoded.
func measureEntry(object string, e bundle.CatalogEntry) (size int, withheld, problem error) {
	data, err := json.Marshal(e)
	if err != nil {
		return 0, nil, fmt.Errorf("encode %s: %w", object, err)
	}
	if err := bundle.CheckCatalogEntry(data); err != nil {
		return len(data), fmt.Errorf("%s: %w", object, err), nil
	}
	withheld, problem = findDisclosure(object, data, e.Annotations[v1beta2.AnnotationPublicFields])
	return len(data), withheld, problem
}

// findDisclosure checks the fields of an encoded catalog entry. It returns a finding if a field appears to contain a
// secret, and a problem if the entry cannot be decoded. It skips the fields in publicFields, which is a comma-separated
// list.
func findDisclosure(object string, data []byte, publicFields string) (finding, problem error) {
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("decode %s: %w", object, err)
	}
	var public []string
	for field := range strings.SplitSeq(publicFields, ",") {
		if field = strings.TrimSpace(field); field != "" {
			public = append(public, field)
		}
	}
	for _, part := range []struct{ key, at string }{{"labels", "metadata.labels"},
		{"annotations", "metadata.annotations"}, {"spec", "spec"}} {
		if found, ok := disclosure.FindSecret(fields[part.key], part.at, public); ok {
			return fmt.Errorf(
				"%s %v: move it to a Secret in the runtime and reference the Secret, or list the field in annotation "+
					"%s if it is not a secret",
				object, found, v1beta2.AnnotationPublicFields), nil
		}
	}
	return nil, nil
}
