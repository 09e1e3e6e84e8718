package drift

import (
	"bytes"
	"encoding/base64"
	"hash/fnv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Fields identifies the agent's fields in an object. fields is a fingerprint of the agent's entry in managedFields, and
// At is this entry's time. Both stay the same until another client changes the agent's fields or the agent applies a
// change.
type Fields struct{ fields, At string }

// FieldsOf returns the agent's fields from managedFields. The fingerprint does not depend on the order of JSON
// fields.
func FieldsOf(entries []metav1.ManagedFieldsEntry, manager string) Fields {
	sum := fnv.New128a()
	var own Fields
	for _, e := range entries {
		isApply := e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
		if e.Manager != manager || !isApply || e.FieldsV1 == nil {
			continue
		}
		raw := e.FieldsV1.GetRawBytes()
		var set fieldpath.Set
		if err := set.FromJSON(bytes.NewReader(raw)); err == nil {
			if canonical, err := set.ToJSON(); err == nil {
				raw = canonical
			}
		}
		_, _ = sum.Write(raw)
		if e.Time != nil {
			own.At = e.Time.UTC().Format(time.RFC3339)
		}
	}
	own.fields = base64.RawStdEncoding.EncodeToString(sum.Sum(nil))
	return own
}
