package command

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestTheEnrollmentKeyIsRotatedByBothOfItsNames(t *testing.T) {
	dir := keyFolder(t)
	shown := func() []string {
		var root shownRoot
		if err := json.Unmarshal([]byte(done(t, "keys", "show", "--keys", dir, "-o", "json")), &root); err != nil {
			t.Fatal(err)
		}
		return root.Enrollers
	}
	before := shown()
	for _, name := range []string{"enroll", "enrol"} {
		done(t, "keys", "rotate", name, "--keys", dir)
		after := shown()
		if slices.Equal(after, before) {
			t.Errorf("rotate %s: the keys are still %v", name, after)
		}
		before = after
	}
}
