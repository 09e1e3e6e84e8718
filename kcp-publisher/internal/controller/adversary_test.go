package controller

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

const adversaryHistories = 250

type histories struct{ seed, count uint64 }

// historiesToRun returns the seeds of the random histories to run. By default, all seeds are fixed. If the long suite
// sets $KYMA_PULL_HISTORIES, half of the seeds are new in each run.
func historiesToRun(t *testing.T, fixed, byDefault uint64) map[string]histories {
	t.Helper()
	asked := os.Getenv("KYMA_PULL_HISTORIES")
	if asked == "" {
		return map[string]histories{"a fixed seed": {fixed, byDefault}}
	}
	count, err := strconv.ParseUint(asked, 10, 32)
	if err != nil {
		t.Fatalf("parse KYMA_PULL_HISTORIES: %v", err)
	}
	return map[string]histories{"a fixed seed": {fixed, count / 2}, "a fresh seed": {rand.Uint64(), count / 2}}
}

// The test runs random histories. An adversary controls the registry, one runtime with its key, and a retired
// publisher key. The adversary can also write one ModuleTemplate, one ModuleReleaseMeta and the labels of the victim's
// Kyma. The victim is another runtime. After each poll by the victim, a model decides which bundles the victim may
// have applied. The model does not share code with the tested packages.
func TestRuntimeCannotChangeBundlesOfOtherRuntimes(t *testing.T) {
	surroundings := newSurroundings(t)
	for name, run := range historiesToRun(t, fixedSeed, adversaryHistories) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := run.seed
			t.Logf("seed %d", seed)
			seen := map[string]int{}
			for number := range run.count {
				w := newAdversary(t, surroundings, rand.New(rand.NewPCG(seed, number)))
				w.run()
				if t.Failed() {
					t.Fatalf("history %d of seed %d:\n%s", number, seed, strings.Join(w.messages, "\n"))
				}
				for what, n := range w.seen {
					seen[what] += n
				}
			}
			t.Logf("number of events: %v", seen)
			for _, what := range []string{"accepted", "refused Rollback", "refused UnknownKey",
				"deviation " + v1beta2.ReasonBundleReplayed, "deviation " + v1beta2.ReasonBundleForeign,
				"deviation " + v1beta2.ReasonBundleMissing, "a crash", "nothing to write", "a rollback",
				"a Kyma refused", "a report refused", "a hostile template", "a hostile meta", "a hostile label"} {
				if seen[what] == 0 && seed == fixedSeed && run.count >= adversaryHistories {
					t.Errorf("no history contains %q, so the test does not cover it", what)
				}
			}
		})
	}
}

func (w *adversary) run() {
	possible := []turn{
		{6, "the victim's Kyma is reconciled", func() { w.reconcile("victim", false) }},
		{1, "the publisher crashes after it published to the victim", func() { w.reconcile("victim", true) }},
		{3, "mallory's Kyma is reconciled", func() { w.reconcile("mallory", false) }},
		{1, "the publisher restarts", w.restart},
		{2, "a newer version is promoted", w.promote},
		{1, "the newest version is rolled back", w.rollBack},
		{2, "the victim reports", w.report},
		{2, "time passes", func() { w.now = w.now.Add(one(w.random, time.Minute, time.Hour, 3*24*time.Hour)) }},

		{4, "an old bundle is pushed again", w.replay},
		{2, "a bundle is forged with a retired key", w.forge},
		{
			1, "the victim's bundle is deleted", func() {
				w.place.untag(bundle.DesiredRepository("victim"), bundle.TagDesired)
			},
		},
		{2, "components are hidden or shown again", func() { *w.hidden = !*w.hidden }},
		{2, "mallory edits her Kyma", w.edit},
		{1, "mallory's Kyma is recreated", w.recreate},
		{2, "mallory writes one ModuleTemplate", w.writeTemplate},
		{1, "mallory writes one ModuleReleaseMeta", w.writeMeta},
		{1, "mallory replaces the labels of the victim's Kyma", w.label},
		{3, "mallory's runtime reports false data", w.pushFalseReports},
		{1, "an old report of the victim is pushed again", w.replayReport},
	}
	for range 16 {
		next := drawn(w.random, possible)
		w.messages = append(w.messages, next.name)
		next.take()
		if w.random.IntN(2) == 0 {
			w.poll()
		}
		if w.Failed() {
			return
		}
	}
	w.leave()
}

// leave ends the attack. After that, the victim must get the version that the operator promoted.
func (w *adversary) leave() {
	w.messages = append(w.messages, "the adversary leaves")
	*w.hidden, w.hostile, w.kymas["victim"].Labels = false, nil, nil
	for range 4 {
		w.now = w.now.Add(2 * time.Hour) // by then, cached lookup failures have expired
		w.reconcile("victim", false)
		w.poll()
		w.report()
	}
	if got := w.inForce["keda"]; got != w.wanted() {
		w.Errorf("got keda %q in the victim, want %s; the Kyma's published bundle is %+v", got, w.wanted(),
			w.kymas["victim"].Status.Runtime.Published)
	}
}

// poll polls as the victim's agent. If the agent accepts a bundle, the bundle must contain only promoted content.
func (w *adversary) poll() {
	before := maps.Clone(w.inForce)
	accepted, refused := w.pollAsVictim()
	if refused != "" {
		w.seen["refused "+refused]++
		w.messages = append(w.messages, "  the victim refuses the bundle: "+refused)
	}
	if accepted == nil {
		return
	}
	w.seen["accepted"]++
	w.messages = append(w.messages,
		fmt.Sprintf("  the victim accepts %d: %v", accepted.Statement.Predicate.Sequence, w.inForce))
	for _, m := range accepted.State.Manifests {
		version, content := m.Version, m.Content[0].Digest
		switch {
		case !slices.Contains(w.promoted, version):
			w.Errorf("module %s %s was never promoted", m.Module, version)
		case content != w.content[version]:
			w.Errorf("module %s %s has content %s, want the released content %s", m.Module, version, content,
				w.content[version])
		case bundle.IsOlder(version, before[m.Module]) && !w.rolledBack[before[m.Module]+" "+version]:
			w.Errorf("module %s was downgraded from %s to %s without a request", m.Module, before[m.Module], version)
		case bundle.IsOlder(version, before[m.Module]):
			w.seen["a rollback"]++
		}
	}
	if image := accepted.State.Settings.Agent; image != "" {
		w.Errorf("the bundle changes the agent's image to %s", image)
	}
	if a := accepted.Statement.Predicate.Audience; a.Runtime != "victim" || a.KeyThumbprint != w.victimKey.thumbprint {
		w.Errorf("the accepted bundle has audience %+v", a)
	}
}

func (w *adversary) checkStatus(before, after *v1beta2.RuntimeStatus) {
	if before == nil || before.Published == nil || after.Published == nil {
		return
	}
	b, a := before.Published, after.Published
	if a.Sequence < b.Sequence {
		w.Errorf("the sequence in the status decreased from %d to %d", b.Sequence, a.Sequence)
	}
	if from, to := b.Versions["keda"], a.Versions["keda"]; bundle.IsOlder(to, from) && !w.rolledBack[from+" "+to] {
		w.Errorf("keda in the status was downgraded from %s to %s", from, to)
	}
	if after.Key.Thumbprint != w.victimKey.thumbprint {
		w.Errorf("the victim's key in the status changed to %s", after.Key.Thumbprint)
	}
}

func (w *adversary) promote() {
	if w.offered+1 < len(w.versions) {
		w.offered++
		w.gate = nil
		w.promoted = append(w.promoted, w.versions[w.offered])
	}
}

func (w *adversary) rollBack() {
	if w.offered == 0 || w.gate != nil {
		return
	}
	bad, good := w.versions[w.offered], w.versions[w.offered-1]
	w.gate = &rollout.Decision{Version: good, ReplacedVersion: bad}
	w.rolledBack[bad+" "+good] = true
}

func (w *adversary) wanted() string {
	if w.gate != nil {
		return w.gate.Version
	}
	return w.versions[w.offered]
}

func (w *adversary) edit() {
	kyma := w.kymas["mallory"]
	kyma.Labels = map[string]string{v1beta2.LabelRuntimeID: one(w.random, "mallory", "victim", "other")}
	kyma.Annotations = map[string]string{v1beta2.AnnotationAgentImage: evilImage}
	kyma.Spec = v1beta2.KymaSpec{
		Channel: "regular", Modules: []v1beta2.Module{{Name: "keda", Managed: w.random.IntN(2) == 0}},
	}
}

// recreate replaces the Kyma of mallory, the adversary's runtime. The new Kyma has mallory's or the victim's runtime
// ID, and is younger than the victim's Kyma.
func (w *adversary) recreate() {
	w.made++
	kyma := kymaNamed("mallory", fmt.Sprint("mallory-", w.made), w.now)
	kyma.Labels = map[string]string{v1beta2.LabelRuntimeID: one(w.random, "mallory", "victim")}
	w.kymas["mallory"] = kyma
}

// forge signs an arbitrary bundle with a stolen, retired key.
func (w *adversary) forge() {
	p := bundle.Predicate{
		Audience: bundle.Audience{Runtime: "victim", KeyThumbprint: w.victimKey.thumbprint}, Epoch: 1, RootVersion: 2,
		IssuedAt:  w.now.UTC().Truncate(time.Millisecond),
		ExpiresAt: w.now.UTC().Truncate(time.Millisecond).Add(bundlesLive),
		Sequence:  one(w.random, w.now.UnixMilli()+5, math.MaxInt64-1),
	}
	if known := w.kymas["victim"].Status.Runtime.Published; known != nil {
		p.Previous = &bundle.Position{Sequence: known.Sequence, Digest: digestOf(known.Digest)}
	}
	manifest, err := bundle.Compose(w.thiefs, p, w.retired.signer)
	w.must(err)
	w.put("victim", manifest)
}
