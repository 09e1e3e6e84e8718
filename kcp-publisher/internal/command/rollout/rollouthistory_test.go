package rollout

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestRolloutHistoryIsListedNewestFirst(t *testing.T) {
	var all []v1alpha1.Rollout
	for i, of := range []string{"keda regular", "nats regular", "keda fast", "keda regular"} {
		module, channel, _ := strings.Cut(of, " ")
		r := v1alpha1.Rollout{Spec: v1alpha1.RolloutSpec{Module: module, Channel: channel, From: "1.0.0", To: "1.1.0"}}
		r.Name, r.CreationTimestamp = module+"-"+channel+"-"+string(rune('1'+i)), metav1.NewTime(time.Unix(int64(i), 0))
		r.Status.State = v1alpha1.RolloutSucceeded
		all = append(all, r)
	}
	for channel, want := range map[string]string{"": "keda-regular-4 keda-fast-3 keda-regular-1",
		"regular": "keda-regular-4 keda-regular-1", "slow": ""} {
		var names []string
		for _, r := range rolloutHistory(all, "keda", channel) {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("channel %q: got %q, want %q", channel, got, want)
		}
	}
	var out bytes.Buffer
	drawHistory(&out, "keda", rolloutHistory(all, "keda", ""), time.Unix(10, 0))
	drawHistory(&out, "none", nil, time.Unix(10, 0))
	if text := out.String(); !strings.Contains(text, "keda-regular-4") || !strings.Contains(text,
		"Succeeded") || !strings.Contains(text, "no rollouts of module none") {
		t.Errorf("got table\n%s", text)
	}
}
