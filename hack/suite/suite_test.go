package suite

import "testing"

func TestLongTestsAreSkippedOutsideTheLongSuite(t *testing.T) {
	for value, want := range map[string]bool{"": false, "1": true} {
		t.Setenv(env, value)
		ran := false
		t.Run(env+"="+value, func(t *testing.T) {
			Long(t)
			ran = true
		})
		if ran != want {
			t.Errorf("with %s=%q the test ran: %t, want %t", env, value, ran, want)
		}
	}
}

func TestSeedIsFixedOutsideTheLongSuite(t *testing.T) {
	t.Setenv(env, "")
	if seed := Seed(t, 7); seed != 7 {
		t.Errorf("got seed %d, want 7", seed)
	}
	t.Setenv(env, "1")
	if first, second := Seed(t, 7), Seed(t, 7); first == second {
		t.Errorf("the long suite got seed %d twice", first)
	}
}
