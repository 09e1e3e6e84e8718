package upgrade

import (
	"fmt"
	"strings"
	"testing"
)

func TestOlderImageNeedsANamedRollback(t *testing.T) {
	pin := func(c string) string { return "host.example/agent@sha256:" + strings.Repeat(c, 64) }
	tagged := func(release, c string) string { return strings.Replace(pin(c), "@", ":"+release+"@", 1) }
	never, always := func(_, _ string) bool { return false }, func(_, _ string) bool { return true }
	digestOf := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	for name, c := range map[string]struct {
		known Known
		want  Wanted
		kept  string // part of the reason
	}{
		"a newer release": {
			Known{Set: pin("b")},
			Wanted{tagged("1.4.0", "c"), "1.3.0", never},
			"",
		},
		"the running release in another build": {
			Known{Set: pin("b")},
			Wanted{tagged("1.3.0", "c"), "1.3.0", never},
			"",
		},
		"an older release": {
			Known{Set: pin("b")},
			Wanted{tagged("1.2.0", "a"), "1.3.0", never},
			"release 1.2.0 is older than the running release 1.3.0",
		},
		"an older release with a v": {
			Known{Set: pin("b")},
			Wanted{tagged("v1.2.0", "a"), "v1.3.0", never},
			"is older",
		},
		"an older release by a named rollback": {
			Known{Set: pin("b")},
			Wanted{tagged("1.2.0", "a"), "1.3.0", always},
			"",
		},
		"an image that was replaced": {
			Known{Set: pin("b"), Former: digestOf("0") + "," + digestOf("a")},
			Wanted{pin("a"), "dev", never},
			"it was replaced by a later one",
		},
		"that image from a mirror": {
			Known{Set: pin("b"), Former: digestOf("a")},
			Wanted{strings.Replace(pin("a"), "host", "mirror", 1), "dev", never},
			"replaced",
		},
		"that image by a named rollback": {
			Known{Set: pin("b"), Former: digestOf("a")},
			Wanted{pin("a"), "dev", always},
			"",
		},
		"an unknown image": {
			Known{Set: pin("b"), Former: digestOf("a")},
			Wanted{pin("c"), "dev", never},
			"",
		},
		"the image that is set": {
			Known{Set: pin("b"), Former: digestOf("b")},
			Wanted{tagged("1.2.0", "b"), "1.3.0", never},
			"",
		},
		"no image": {Known{Set: pin("b")}, Wanted{"", "1.3.0", never}, ""},
		"a chart's image without a digest": {
			Known{Set: "host.example/agent:1.3.0"},
			Wanted{tagged("1.2.0", "a"), "1.3.0", never},
			"older",
		},
		"an older release, by a chart's own tag": {
			Known{Set: "host.example/agent:1.2.0"},
			Wanted{tagged("1.2.0", "a"), "1.2.0", never},
			"",
		},
	} {
		got := c.known.older(c.want)
		if (got == "") != (c.kept == "") || !strings.Contains(got, c.kept) {
			t.Errorf("%s: %q", name, got)
		}
		step := Round(Known{Set: c.known.Set, Running: c.known.Set, Proven: c.known.Set, Former: c.known.Former},
			c.want, Trial)
		if (step.Set == c.known.Set) != (c.kept != "" || c.want.Image == "" || c.want.Image == c.known.Set) &&
			name != "the image that is set" {
			t.Errorf("%s: the agent sets %s", name, step.Set)
		}
	}
}

// TestReplacedImagesAreRemembered upgrades through three images. One of them fails.
func TestReplacedImagesAreRemembered(t *testing.T) {
	never := func(_, _ string) bool { return false }
	k := Known{Set: "a", Running: "a", Proven: "a"}
	to := func(image string) {
		s := Round(k, Wanted{Image: image, GoesBack: never}, Trial)
		k = Known{Set: s.Set, Running: s.Set, Proven: s.Proven, Failed: s.Failed, Former: s.Former}
	}
	to("b")
	if k.Set != "b" || k.Former != "a" {
		t.Fatalf("after an upgrade: %+v", k)
	}
	s := Overdue(k) // b fails
	k = Known{Set: s.Set, Running: s.Set, Proven: s.Proven, Failed: s.Failed, Former: s.Former}
	if k.Set != "a" || k.Former != "" {
		t.Fatalf("after a failure: %+v", k)
	}
	to("c")
	k.Proven = "c"
	if to("a"); k.Set != "c" {
		t.Fatalf("the agent returned to a replaced image: %+v", k)
	}
	for i := range 2 * maxFormer {
		to(fmt.Sprint("n", i))
		k.Proven = k.Set
	}
	if n := len(k.former()); n != maxFormer {
		t.Errorf("%d images are remembered", n)
	}
}
