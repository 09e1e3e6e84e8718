package rollout

import "testing"

func TestProgressMessageNamesTheEndOfTheSoakTime(t *testing.T) {
	for last, want := range map[bool]string{
		false: "soaking before the next wave starts",
		true:  "soaking before the rollout ends",
	} {
		if got := (&wave{}).progressMessage("", true, last); got != want {
			t.Errorf("last wave %t: got message %q, want %q", last, got, want)
		}
	}
}
