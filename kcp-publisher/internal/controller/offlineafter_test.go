package controller

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestOfflineAfterWarningIsEmittedOncePerGeneration(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	ctx, lines := logged(t)
	policy := func(generation int64, offlineAfter time.Duration) []fleet.RolloutPolicy {
		return []fleet.RolloutPolicy{{
			ObjectMeta: metav1.ObjectMeta{Name: "hasty", UID: "u", Generation: generation},
			Spec: fleet.RolloutPolicySpec{
				Course: fleet.Course{OfflineAfter: metav1.Duration{Duration: offlineAfter}},
			},
		}}
	}
	check := func(r *Rollouts, policies []fleet.RolloutPolicy, wantEvents, wantLines int) {
		t.Helper()
		r.warnOfflineAfter(ctx, policies)
		if gotEvents, gotLines := len(recorder.Events), strings.Count(lines.String(), "\n"); gotEvents != wantEvents ||
			gotLines != wantLines {
			t.Errorf("got %d Events and %d log lines, want %d and %d", gotEvents, gotLines, wantEvents, wantLines)
		}
	}
	r := &Rollouts{Events: recorder, maxQuiet: maxQuietTime(0, 0, 30*time.Second)}
	check(r, nil, 0, 0)
	check(r, policy(1, 2*time.Minute), 1, 1)
	check(r, policy(1, 2*time.Minute), 1, 1)
	check(r, policy(2, 15*time.Minute), 1, 1)
	// A healthy runtime's reports can be 5 minutes and one agent poll apart. The publisher reads a report up to a
	// minute later.
	check(r, policy(3, 7*time.Minute), 2, 2)
	again := &Rollouts{Events: recorder, maxQuiet: r.maxQuiet}
	check(again, policy(3, 7*time.Minute), 2, 3)
	check(again, policy(3, 7*time.Minute), 2, 3)
	oftener := &Rollouts{Events: recorder, maxQuiet: maxQuietTime(time.Minute, time.Minute, 30*time.Second)}
	check(oftener, policy(3, 7*time.Minute), 2, 3)
}
