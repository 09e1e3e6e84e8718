package shard

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestCommitApprovalsSurviveEncoding(t *testing.T) {
	given := Approvals{
		Commit: "c1", At: time.Unix(7, 0).UTC(), Kymas: map[types.UID]bool{"berlin": true},
		Modules: map[string]bool{"watchdog": true},
	}
	data, digest, err := given.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if again, same, err := given.Encode(); err != nil || same != digest || string(again) != string(data) {
		t.Errorf("the same approvals have the digests %s and %s, error %v", digest, same, err)
	}
	got, err := DecodeApprovals(data)
	if err != nil || CheckApprovals(data, digest) != nil || got.Commit != "c1" {
		t.Fatalf("got %+v, error %v, want commit c1", got, err)
	}
	for _, c := range []struct {
		kyma     types.UID
		module   string
		approved bool
	}{{"berlin", "", true}, {"paris", "", false}, {"berlin", "watchdog", true}, {"paris", "watchdog", true},
		{"berlin", "keda", false}} {
		if at := got.Of(c.kyma, c.module); at.Equal(given.At) != c.approved || at.IsZero() == c.approved {
			t.Errorf("removal of module %q from Kyma %s was approved at %s, want approved %t", c.module, c.kyma, at,
				c.approved)
		}
	}
}

func TestForeignApprovalsAreRefused(t *testing.T) {
	data, digest, err := Approvals{Commit: "c1", Modules: map[string]bool{"watchdog": true}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := Approvals{Commit: "c2", Modules: map[string]bool{"watchdog": true}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if CheckApprovals(data, other) == nil || CheckApprovals(nil, digest) == nil {
		t.Error("approvals with a different digest were accepted")
	}
	if _, err := DecodeApprovals(data[:len(data)-3]); err == nil {
		t.Error("truncated approvals were accepted")
	}
	if data, digest, err := (Approvals{Commit: "c1"}).Encode(); data != nil || digest != "" || err != nil {
		t.Errorf("a commit without approvals has data %x and digest %q, error %v", data, digest, err)
	}
	if none, err := DecodeApprovals(nil); err != nil || !none.Of("berlin", "").IsZero() {
		t.Errorf("no approvals are stored, but got %+v, error %v", none, err)
	}
}
