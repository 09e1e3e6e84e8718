package upgrade

import (
	"fmt"
	"strings"
	"testing"
)

func TestOlderImageRequiresAnAllowedRollback(t *testing.T) {
	pin := func(c string) string { return "host.example/agent@sha256:" + strings.Repeat(c, 64) }
	tagged := func(release, c string) string { return strings.Replace(pin(c), "@", ":"+release+"@", 1) }
	never, always := func(_, _ string) bool { return false }, func(_, _ string) bool { return true }
	digestOf := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	for name, c := range map[string]struct {
		known Known
		want  Wanted
		kept  string // part of the reason to keep the image; empty if the image is upgraded
	}{
		"newer release": {
			Known{State: State{Set: pin("b")}},
			Wanted{tagged("1.4.0", "c"), "1.3.0", never},
			"",
		},
		"another build of the running release": {
			Known{State: State{Set: pin("b")}},
			Wanted{tagged("1.3.0", "c"), "1.3.0", never},
			"",
		},
		"older release": {
			Known{State: State{Set: pin("b")}},
			Wanted{tagged("1.2.0", "a"), "1.3.0", never},
			"release 1.2.0 is older than the running release 1.3.0",
		},
		"older release with the prefix v": {
			Known{State: State{Set: pin("b")}},
			Wanted{tagged("v1.2.0", "a"), "v1.3.0", never},
			"is older",
		},
		"older release with an allowed rollback": {
			Known{State: State{Set: pin("b")}},
			Wanted{tagged("1.2.0", "a"), "1.3.0", always},
			"",
		},
		"replaced image": {
			Known{State: State{Set: pin("b"), Former: digestOf("0") + "," + digestOf("a")}},
			Wanted{pin("a"), "dev", never},
			"a later image replaced it",
		},
		"replaced image from a mirror": {
			Known{State: State{Set: pin("b"), Former: digestOf("a")}},
			Wanted{strings.Replace(pin("a"), "host", "mirror", 1), "dev", never},
			"replaced",
		},
		"replaced image with an allowed rollback": {
			Known{State: State{Set: pin("b"), Former: digestOf("a")}},
			Wanted{pin("a"), "dev", always},
			"",
		},
		"image without a release that was not replaced": {
			Known{State: State{Set: pin("b"), Former: digestOf("a")}},
			Wanted{pin("c"), "dev", never},
			"",
		},
		"current image": {
			Known{State: State{Set: pin("b"), Former: digestOf("b")}},
			Wanted{tagged("1.2.0", "b"), "1.3.0", never},
			"",
		},
		"bundle without an image": {Known{State: State{Set: pin("b")}}, Wanted{"", "1.3.0", never}, ""},
		"older release, current image without a digest": {
			Known{State: State{Set: "host.example/agent:1.3.0"}},
			Wanted{tagged("1.2.0", "a"), "1.3.0", never},
			"older",
		},
		"running release, current image without a digest": {
			Known{State: State{Set: "host.example/agent:1.2.0"}},
			Wanted{tagged("1.2.0", "a"), "1.2.0", never},
			"",
		},
	} {
		got := c.known.older(c.want)
		if (got == "") != (c.kept == "") || !strings.Contains(got, c.kept) {
			t.Errorf("%s: got reason %q, want %q", name, got, c.kept)
		}
		state := State{Set: c.known.Set, Proven: c.known.Set, Former: c.known.Former}
		step := Round(Known{State: state, Running: c.known.Set}, c.want, Trial)
		if (step.Set == c.known.Set) != (c.kept != "" || c.want.Image == "" || c.want.Image == c.known.Set) &&
			name != "current image" {
			t.Errorf("%s: got image %s, current image %s, want an upgrade only without a reason %q", name, step.Set,
				c.known.Set, c.kept)
		}
	}
}

// The agent upgrades to image b, which fails, and then to image c and many other images.
func TestReplacedAgentImagesAreRecorded(t *testing.T) {
	never := func(_, _ string) bool { return false }
	k := Known{State: State{Set: "a", Proven: "a"}, Running: "a"}
	to := func(image string) {
		s := Round(k, Wanted{Image: image, GoesBack: never}, Trial)
		k = Known{State: s.State, Running: s.Set}
	}
	to("b")
	if k.Set != "b" || k.Former != "a" {
		t.Fatalf("got %+v after an upgrade, want image b and former image a", k)
	}
	s := Overdue(k, false) // b fails
	k = Known{State: s.State, Running: s.Set}
	if k.Set != "a" || k.Former != "" {
		t.Fatalf("got %+v after a failure, want image a and no former image", k)
	}
	to("c")
	k.Proven = "c"
	if to("a"); k.Set != "c" {
		t.Fatalf("got %+v, want image c because a was replaced", k)
	}
	for i := range 2 * maxFormer {
		to(fmt.Sprint("n", i))
		k.Proven = k.Set
	}
	if n := len(k.former()); n != maxFormer {
		t.Errorf("got %d former images, want %d", n, maxFormer)
	}
}
