package watch

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// seen is all that a watch remembers of an object: its name, and a fingerprint of the part whose changes count.
type seen struct {
	metav1.ObjectMeta
	print string
}

// shrink makes of an object what is remembered of it: of metadata alone the fingerprint is that of the spec, of a whole
// object that of the status.
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

func small(o metav1.Object, fingerprint string) *seen {
	return &seen{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), ResourceVersion: o.GetResourceVersion()},
		print:      string(o.GetUID()) + " " + fingerprint,
	}
}

// specPrint changes with the generation, and when a deletion begins. Kinds without generations, such as ConfigMaps,
// have no status either, so that each of their versions counts.
func specPrint(o metav1.Object) string {
	deleting := o.GetDeletionTimestamp() != nil
	if o.GetGeneration() == 0 {
		return fmt.Sprint(o.GetResourceVersion(), deleting)
	}
	return fmt.Sprint(o.GetGeneration(), deleting)
}

func statusPrint(o *unstructured.Unstructured) (string, error) {
	status, there := o.Object["status"]
	if !there {
		return "", nil
	}
	sum := fnv.New128a()
	if err := json.NewEncoder(sum).Encode(status); err != nil { // maps are encoded in the order of their keys
		return "", err
	}
	return base64.RawStdEncoding.EncodeToString(sum.Sum(nil)), nil
}
