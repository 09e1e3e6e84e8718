package watch

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// cachedObject is the part of a watched object that an informer caches: its name, and a fingerprint of its spec or
// status.
type cachedObject struct {
	metav1.ObjectMeta
	fingerprint string
}

// reduceObject is the informers' transform function. It reduces an object to its name and a fingerprint.
func reduceObject(in any) (any, error) {
	switch o := in.(type) {
	case *metav1.PartialObjectMetadata:
		return newCachedObject(o, specFingerprint(o)), nil
	case *unstructured.Unstructured:
		fingerprint, err := statusFingerprint(o)
		if err != nil {
			return nil, fmt.Errorf("read the status of %s/%s: %w", o.GetNamespace(), o.GetName(), err)
		}
		return newCachedObject(o, fingerprint), nil
	}
	return in, nil
}

func newCachedObject(o metav1.Object, fingerprint string) *cachedObject {
	return &cachedObject{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       o.GetNamespace(),
			Name:            o.GetName(),
			ResourceVersion: o.GetResourceVersion(),
		},
		fingerprint: string(o.GetUID()) + " " + fingerprint,
	}
}

// specFingerprint returns a fingerprint that changes when the generation changes or the deletion starts. For kinds
// without a generation, such as ConfigMaps, it changes with the resource version.
func specFingerprint(o metav1.Object) string {
	deleting := o.GetDeletionTimestamp() != nil
	if o.GetGeneration() == 0 {
		return fmt.Sprint(o.GetResourceVersion(), deleting)
	}
	return fmt.Sprint(o.GetGeneration(), deleting)
}

func statusFingerprint(o *unstructured.Unstructured) (string, error) {
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
