package fleet

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func digestOf(n int) digest.Digest { return digest.FromString(fmt.Sprint(n)) }

// sequences returns a Kyma with this history. newest is the sequence number of the latest bundle, and observed is the
// sequence number of the last applied bundle.
func sequences(newest, observed int, history ...v1beta2.BundleRecord) *v1beta2.Kyma {
	kyma := &v1beta2.Kyma{}
	kyma.Status.Runtime = &v1beta2.RuntimeStatus{
		Published: &v1beta2.PublishedBundle{
			Epoch: 1, Sequence: int64(newest), Digest: digestOf(newest).String(), Time: metav1.NewTime(noon),
		},
		Observed: &v1beta2.ObservedBundle{Epoch: 1, Sequence: int64(observed), Digest: digestOf(observed).String()},
		History:  history,
	}
	return kyma
}

func record(n int, change func(*v1beta2.BundleRecord)) v1beta2.BundleRecord {
	b := v1beta2.BundleRecord{
		Epoch: 1, Sequence: int64(n), Digest: digestOf(n).String(),
		Published: metav1.NewTime(noon.Add(time.Duration(n) * time.Minute)), Commit: "noted",
	}
	change(&b)
	return b
}

func applied(state v1beta2.State) func(*v1beta2.BundleRecord) {
	return func(b *v1beta2.BundleRecord) { b.Applied, b.State = &metav1.Time{Time: noon}, state }
}

func identity(n int) bundle.BundleIdentity {
	i := bundle.BundleIdentity{
		Digest: digestOf(n), Epoch: 1, Sequence: int64(n), IssuedAt: noon, PublisherKey: "key",
		Source: &bundle.Source{Commit: "signed"},
	}
	if n > 1 {
		i.Previous = &bundle.Position{Sequence: int64(n - 1), Digest: digestOf(n - 1)}
	}
	return i
}

func outcomesOf(bundles []Bundle) string {
	var lines []string
	for i := range bundles {
		b := &bundles[i]
		lines = append(lines,
			fmt.Sprintf("%d %s; %s; %s; signed %t %s", b.Sequence, b.OutcomeText(), b.Why(), b.Commit, b.Signed != nil,
				b.Unverified))
	}
	return strings.Join(lines, "\n")
}

func TestTimelinePrefersSignedData(t *testing.T) {
	kyma := sequences(9, 8, record(9, func(b *v1beta2.BundleRecord) {
		b.Changes, b.More = []v1beta2.VersionChange{{Module: "keda", From: "1.0.0", To: "2.0.0"},
			{Module: "mail", To: "1.0.0"}, {Module: "old", From: "3.0.0"}}, 1
	}), record(8, applied(v1beta2.StateError)), record(7, func(b *v1beta2.BundleRecord) { b.Refused = "Downgrade" }),
		record(6, func(*v1beta2.BundleRecord) {}), record(5, applied(v1beta2.StateReady)))
	for name, c := range map[string]struct {
		chain Chain
		want  string
	}{
		"registry was not read": {Chain{}, `9 waits for the runtime; keda 1.0.0 → 2.0.0, mail 1.0.0, old removed, and 1 other module; noted; signed false 
8 in force, Error; no version changes; noted; signed false 
7 refused: Downgrade; no version changes; noted; signed false 
6 replaced before it was reported; no version changes; noted; signed false 
5 applied, Ready; no version changes; noted; signed false `},
		"registry has two bundles": {Chain{Asked: true, Bundles: []bundle.BundleIdentity{identity(9), identity(8)}, EndReason: "gone"}, `9 waits for the runtime; keda 1.0.0 → 2.0.0, mail 1.0.0, old removed, and 1 other module; signed; signed true 
8 in force, Error; no version changes; signed; signed true 
7 refused: Downgrade; no version changes; noted; signed false gone
6 replaced before it was reported; no version changes; noted; signed false gone
5 applied, Ready; no version changes; noted; signed false gone`},
	} {
		if got := outcomesOf(Timeline(kyma, c.chain)); got != c.want {
			t.Errorf("%s: got\n%s\n\nwant\n%s", name, got, c.want)
		}
	}
	// An older publisher wrote the status without a history, so the results of the bundles in the registry are unknown.
	want := "9 in force; not recorded; signed; signed true \n8 not recorded; not recorded; signed; signed true "
	if got := outcomesOf(Timeline(sequences(9, 9),
		Chain{Asked: true, Bundles: []bundle.BundleIdentity{identity(9), identity(8)}})); got != want {
		t.Errorf("status without a history: got\n%s\n\nwant\n%s", got, want)
	}
	if got := Timeline(&v1beta2.Kyma{}, Chain{}); got != nil {
		t.Errorf("Kyma without a bundle: got %v, want no timeline", got)
	}
}

func TestBundleChainEndsAtFirstUnreadableBundle(t *testing.T) {
	asked := 0
	read := func(missing int) func(string) (bundle.BundleIdentity, error) {
		return func(want string) (bundle.BundleIdentity, error) {
			asked++
			for n := range 20 {
				if digestOf(n).String() == want && n != missing {
					return identity(n), nil
				}
			}
			return bundle.BundleIdentity{}, errors.New("not there\x1b[31m")
		}
	}
	if c := ReadChain(sequences(9, 9), read(0)); len(c.Bundles) != maxTimeline || c.EndReason != "" || asked != maxTimeline {
		t.Errorf("complete chain: got %d bundles with %d requests, ends with %q", len(c.Bundles), asked, c.EndReason)
	}
	if c := ReadChain(sequences(9, 9), read(7)); len(c.Bundles) != 2 || !strings.HasPrefix(c.EndReason, "not there") ||
		strings.Contains(c.EndReason, "\x1b") {
		t.Errorf("missing bundle: got %d bundles, ends with %q, want 2 bundles", len(c.Bundles), c.EndReason)
	}
	// The chain ends at a bundle that refers to itself as the previous bundle.
	if c := ReadChain(sequences(2, 2), func(string) (bundle.BundleIdentity, error) {
		i := identity(2)
		i.Previous = &bundle.Position{Sequence: 2, Digest: digestOf(2)}
		return i, nil
	}); len(c.Bundles) != 1 {
		t.Errorf("cyclic chain: got %d bundles, want 1", len(c.Bundles))
	}
}

func TestTimelineTextIsBoundedAndPrintable(t *testing.T) {
	hostile := strings.Repeat("x", 10_000) + "\x1b[31m\u202e\n"
	all := Timeline(sequences(9, 9, record(9, func(b *v1beta2.BundleRecord) {
		b.Commit, b.Refused, b.Changes = hostile, hostile, []v1beta2.VersionChange{
			{Module: hostile, From: hostile, To: hostile},
		}
	})), Chain{})
	if got := outcomesOf(all); len(got) > 2000 || strings.ContainsAny(got, "\x1b\u202e\n") {
		t.Errorf("got %d bytes with control characters or above the limit: %q", len(got), got)
	}
}
