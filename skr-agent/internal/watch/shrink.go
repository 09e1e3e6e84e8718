package watch

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// known is the part of a watched object that an informer caches: its name, and a fingerprint of its spec or status.
type known struct {
	metav1.ObjectMeta
	fingerprint string
}

// shrink is the transform function of the informers. It reduces an object to its name and a fingerprint.
func shrink(in any) (any, error) {
	switch o := in.(type) {
	case *metav1.PartialObjectMetadata:
		return small(o, specPrint(o)), nil
	case *unstructured.Unstructured:
		fingerprint, err := statusPrint(o)
		if err != nil {
			return nil, fmt.Errorf("status of %s/%s: %w", o.GetNamespace(), o.GetName(), err)
		}
		return small(o, fingerprint), nil
	}
	return in, nil
}

func small(o metav1.Object, fingerprint string) *known {
	return &known{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       o.GetNamespace(),
			Name:            o.GetName(),
			ResourceVersion: o.GetResourceVersion(),
		},
		fingerprint: string(o.GetUID()) + " " + fingerprint,
	}
}

// specPrint returns a fingerprint that changes when the generation changes or the deletion starts. For kinds without a
// generation, such as ConfigMaps, it changes with the resource version.
func specPrint(o metav1.Object) string {
	deleting := o.GetDeletionTimestamp() != nil
	if o.GetGeneration() == 0 {
		return fmt.Sprint(o.GetResourceVersion(), deleting)
	}
	return fmt.Sprint(o.GetGeneration(), deleting)
}

func statusPrint(o *unstructured.Unstructured) (string, error) {
	status, ok := o.Object["status"]
	if !ok {
		return "", nil
	}
	sum := fnv.New128a()
	// Encode sorts map keys, so equal statuses have the same fingerprint.
	if err := json.NewEncoder(sum).Encode(status); err != nil {
		return "", err
	}
	return base64.RawStdEncoding.EncodeToString(sum.Sum(nil)), nil
}
