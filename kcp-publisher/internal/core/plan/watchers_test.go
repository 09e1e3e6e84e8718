package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func watcherOf(name, resource string, age time.Duration) v1beta2.Watcher {
	return v1beta2.Watcher{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "kcp-system", CreationTimestamp: metav1.NewTime(noon.Add(-age)),
		},
		Spec: v1beta2.WatcherSpec{
			ResourceToWatch: v1beta2.WatchableGVR{Version: "v1", Resource: resource},
			Field:           bundle.FieldSpec,
		},
	}
}

func TestInvalidWatcherDoesNotAffectOthers(t *testing.T) {
	going := watcherOf("going", "pods", 0)
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	accepted, refused := CheckWatchers(
		[]v1beta2.Watcher{
			watcherOf("b", "pods", 0), going, watcherOf("keys", "secrets", 0), watcherOf("a", "configmaps", 0),
		},
	)
	if len(accepted) != 2 || accepted[0].Name != "a" || accepted[1].Name != "b" {
		t.Errorf("got accepted Watchers %+v", accepted)
	}
	if len(refused) != 1 || !strings.Contains(fmt.Sprint(refused["keys"]), "cannot be watched") {
		t.Errorf("got refused Watchers %v", refused)
	}
}

// Source: lifecycle-manager, config/watcher/kyma_watcher.yaml.
func TestWatcherFromLifecycleManagerIsAccepted(t *testing.T) {
	own := watcherOf("watcher", "kymas", 0)
	own.Spec.ResourceToWatch.Group, own.Spec.ResourceToWatch.Version = v1beta2.Group, "*"
	own.Spec.LabelsToWatch = map[string]string{v1beta2.LabelWatchedBy: v1beta2.ManagedByKyma}
	other := watcherOf("other", "certificates", 0)
	other.Spec.ResourceToWatch.Group, other.Spec.ResourceToWatch.Version = "cert-manager.io", "*"
	accepted, refused := CheckWatchers([]v1beta2.Watcher{own, other})
	if len(accepted) != 1 || accepted[0].Version != "v1beta2" || accepted[0].Name != "watcher" {
		t.Errorf("got accepted Watchers %+v", accepted)
	}
	if !strings.Contains(fmt.Sprint(refused["other"]), "must be one version such as v1") {
		t.Errorf("got refused Watchers %v", refused)
	}
}

func TestOldestWatchersAreKeptAboveTheLimit(t *testing.T) {
	var all []v1beta2.Watcher
	for i := range bundle.MaxWatchers + 2 {
		all = append(all, watcherOf(fmt.Sprintf("w-%02d", i), "pods", time.Duration(i)*time.Minute))
	}
	accepted, refused := CheckWatchers(all)
	if len(accepted) != bundle.MaxWatchers || len(refused) != 2 || refused["w-00"] == nil || refused["w-01"] == nil {
		t.Errorf("got %d accepted Watchers and refused %v, want %d and the two youngest", len(accepted), refused,
			bundle.MaxWatchers)
	}
	slices.Reverse(all)
	again, _ := CheckWatchers(all)
	if fmt.Sprint(again) != fmt.Sprint(accepted) {
		t.Errorf("in another order: got accepted Watchers %v, want %v", again, accepted)
	}
}
