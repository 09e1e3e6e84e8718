package follow

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCommitReplacesTheWholeSpec(t *testing.T) {
	const (
		mine   = `{"f:metadata":{"f:annotations":{"f:kyma-pull.dev/git-commit":{}}},"f:spec":{"f:channel":{}}}`
		theirs = `{"f:metadata":{"f:labels":{"f:region":{}}},"f:spec":{"f:modules":{"k:{\"name\":\"scaler\"}":{".":{},"f:name":{}}}}}`
		status = `{"f:status":{"f:state":{}}}`
	)
	ofStatus := owns("kcp-publisher", metav1.ManagedFieldsOperationUpdate, status)
	ofStatus.Subresource = "status"
	for name, c := range map[string]struct {
		before  []metav1.ManagedFieldsEntry
		changed bool
		want    map[string]string
	}{
		"fields of kubectl in the spec": {
			[]metav1.ManagedFieldsEntry{owns(fieldManager, metav1.ManagedFieldsOperationApply, mine),
				owns("kubectl", metav1.ManagedFieldsOperationUpdate, theirs), ofStatus}, true,
			map[string]string{
				fieldManager +
					" Apply": `{"f:metadata":{"f:annotations":{"f:kyma-pull.dev/git-commit":{}}},"f:spec":{"f:channel":{},"f:modules":{"k:{\"name\":\"scaler\"}":{".":{},"f:name":{}}}}}`,
				"kubectl Update":       `{"f:metadata":{"f:labels":{"f:region":{}}}}`,
				"kcp-publisher Update": status,
			},
		},
		"object that was not applied before": {
			[]metav1.ManagedFieldsEntry{
				owns("broker", metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:channel":{}}}`), ofStatus,
			}, true,
			map[string]string{fieldManager + " Apply": `{"f:spec":{"f:channel":{}}}`, "kcp-publisher Update": status},
		},
		"labels owned by another manager": {
			[]metav1.ManagedFieldsEntry{owns(fieldManager, metav1.ManagedFieldsOperationApply, mine),
				owns("broker", metav1.ManagedFieldsOperationUpdate, `{"f:metadata":{"f:labels":{"f:region":{}}}}`)},
			false,
			map[string]string{
				fieldManager + " Apply": mine, "broker Update": `{"f:metadata":{"f:labels":{"f:region":{}}}}`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			after, changed, err := reclaimSpec(c.before)
			if err != nil || changed != c.changed || len(after) != len(c.want) {
				t.Fatalf("got changed %t, managed fields %v, error %v", changed, after, err)
			}
			for _, entry := range after {
				if got, want := entry.FieldsV1.GetRawString(),
					c.want[entry.Manager+" "+string(entry.Operation)]; got != want {
					t.Errorf("%s owns\n%s\nwant\n%s", entry.Manager, got, want)
				}
			}
			if _, again, err := reclaimSpec(after); again || err != nil {
				t.Errorf("a second call changes the fields again: %v", err)
			}
		})
	}
	if _, _, err := reclaimSpec([]metav1.ManagedFieldsEntry{
		owns("kubectl", metav1.ManagedFieldsOperationUpdate, `{"x`),
	}); err == nil {
		t.Error("invalid managed fields are accepted")
	}
}
