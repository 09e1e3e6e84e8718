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
		known Snapshot
		want  Target
		kept  string // part of the reason to keep the image; empty if the image is upgraded
	}{
		"newer release": {
			Snapshot{State: State{TemplateImage: pin("b")}},
			Target{tagged("1.4.0", "c"), "1.3.0", never},
			"",
		},
		"another build of the running release": {
			Snapshot{State: State{TemplateImage: pin("b")}},
			Target{tagged("1.3.0", "c"), "1.3.0", never},
			"",
		},
		"older release": {
			Snapshot{State: State{TemplateImage: pin("b")}},
			Target{tagged("1.2.0", "a"), "1.3.0", never},
			"release 1.2.0 is older than the running release 1.3.0",
		},
		"older release with the prefix v": {
			Snapshot{State: State{TemplateImage: pin("b")}},
			Target{tagged("v1.2.0", "a"), "v1.3.0", never},
			"is older",
		},
		"older release with an allowed rollback": {
			Snapshot{State: State{TemplateImage: pin("b")}},
			Target{tagged("1.2.0", "a"), "1.3.0", always},
			"",
		},
		"replaced image": {
			Snapshot{State: State{TemplateImage: pin("b"), FormerDigests: digestOf("0") + "," + digestOf("a")}},
			Target{pin("a"), "dev", never},
			"a later image replaced it",
		},
		"replaced image from a mirror": {
			Snapshot{State: State{TemplateImage: pin("b"), FormerDigests: digestOf("a")}},
			Target{strings.Replace(pin("a"), "host", "mirror", 1), "dev", never},
			"replaced",
		},
		"replaced image with an allowed rollback": {
			Snapshot{State: State{TemplateImage: pin("b"), FormerDigests: digestOf("a")}},
			Target{pin("a"), "dev", always},
			"",
		},
		"image without a release that was not replaced": {
			Snapshot{State: State{TemplateImage: pin("b"), FormerDigests: digestOf("a")}},
			Target{pin("c"), "dev", never},
			"",
		},
		"current image": {
			Snapshot{State: State{TemplateImage: pin("b"), FormerDigests: digestOf("b")}},
			Target{tagged("1.2.0", "b"), "1.3.0", never},
			"",
		},
		"running agent built from a commit that contains only digits": {
			Snapshot{State: State{TemplateImage: pin("b")}},
			Target{tagged("1.2.0", "c"), "54501714-dirty", never},
			"",
		},
		"image built from a commit that contains only digits": {
			Snapshot{State: State{TemplateImage: pin("b")}},
			Target{tagged("12345678", "c"), "54501714.0.0", never},
			"",
		},
		"bundle without an image": {Snapshot{State: State{TemplateImage: pin("b")}}, Target{"", "1.3.0", never}, ""},
		"older release, current image without a digest": {
			Snapshot{State: State{TemplateImage: "host.example/agent:1.3.0"}},
			Target{tagged("1.2.0", "a"), "1.3.0", never},
			"older",
		},
		"running release, current image without a digest": {
			Snapshot{State: State{TemplateImage: "host.example/agent:1.2.0"}},
			Target{tagged("1.2.0", "a"), "1.2.0", never},
			"",
		},
	} {
		got := c.known.downgradeReason(c.want)
		if (got == "") != (c.kept == "") || !strings.Contains(got, c.kept) {
			t.Errorf("%s: got reason %q, want %q", name, got, c.kept)
		}
		state := State{TemplateImage: c.known.TemplateImage, ProvenImage: c.known.TemplateImage,
			FormerDigests: c.known.FormerDigests}
		step := onReconciled(Snapshot{State: state, RunningImage: c.known.TemplateImage}, c.want, Trial)
		if (step.TemplateImage == c.known.TemplateImage) != (c.kept != "" || c.want.Image == "" ||
			c.want.Image == c.known.TemplateImage) &&
			name != "current image" {
			t.Errorf("%s: got image %s, current image %s, want an upgrade only without a reason %q", name, step.TemplateImage,
				c.known.TemplateImage, c.kept)
		}
	}
}

// The agent upgrades to image b, which fails, and then to image c and many other images.
func TestReplacedAgentImagesAreRecorded(t *testing.T) {
	never := func(_, _ string) bool { return false }
	k := Snapshot{State: State{TemplateImage: "a", ProvenImage: "a"}, RunningImage: "a"}
	to := func(image string) {
		s := onReconciled(k, Target{Image: image, AllowsRollback: never}, Trial)
		k = Snapshot{State: s.State, RunningImage: s.TemplateImage}
	}
	to("b")
	if k.TemplateImage != "b" || k.FormerDigests != "a" {
		t.Fatalf("got %+v after an upgrade, want image b and former image a", k)
	}
	s := onDeadline(k, false) // b fails
	k = Snapshot{State: s.State, RunningImage: s.TemplateImage}
	if k.TemplateImage != "a" || k.FormerDigests != "" {
		t.Fatalf("got %+v after a failure, want image a and no former image", k)
	}
	to("c")
	k.ProvenImage = "c"
	if to("a"); k.TemplateImage != "c" {
		t.Fatalf("got %+v, want image c because a was replaced", k)
	}
	always := func(_, _ string) bool { return true }
	s = onReconciled(k, Target{Image: "a", AllowsRollback: always}, Trial) // an allowed rollback
	k = Snapshot{State: s.State, RunningImage: s.TemplateImage}
	k.ProvenImage = k.TemplateImage
	if k.TemplateImage != "a" || k.FormerDigests != "" {
		t.Fatalf("got %+v after an allowed rollback, want image a and no former image", k)
	}
	if to("c"); k.TemplateImage != "c" {
		t.Fatalf("got %+v, want image c, because the rollback did not replace it", k)
	}
	k.ProvenImage = "c"
	for i := range 2 * maxFormerImages {
		to(fmt.Sprint("n", i))
		k.ProvenImage = k.TemplateImage
	}
	if n := len(k.listFormer()); n != maxFormerImages {
		t.Errorf("got %d former images, want %d", n, maxFormerImages)
	}
}
