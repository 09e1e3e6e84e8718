package bundle

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
)

func TestReportTimeMustBePlausible(t *testing.T) {
	mine, next := trusttest.NewSigner(t), trusttest.NewSigner(t)
	now := trusttest.Now
	ahead := now.Add(trust.MaxClockSkew).UnixMilli()
	at := func(sequence int64, reportedAt time.Time) Report {
		report := sampleReport()
		report.Sequence, report.Time = sequence, reportedAt
		return report
	}
	introducing := func(report Report) Report {
		report.Enrollment = introduction(t, issue(t, testSecret, trusttest.Runtime, now.Add(time.Hour)),
			trusttest.Runtime, next)
		return report
	}
	for name, c := range map[string]struct {
		report Report
		signer trust.Signer
		last   int64
		want   refusal.Reason
	}{
		"a report of the current time is accepted": {at(now.UnixMilli(), now), mine, 49, ""},
		"a clock that is a day ahead is accepted": {
			at(ahead, now.Add(trust.MaxClockSkew)), mine, 49, "",
		},
		"a clock that is behind is accepted": {at(50, now.AddDate(-30, 0, 0)), mine, 49, ""},
		"a sequence two days ahead is refused": {
			at(ahead+1, now), mine, 49, refusal.NotYetIssued,
		},
		"the largest possible sequence is refused": {
			at(math.MaxInt64, now), mine, 49, refusal.NotYetIssued,
		},
		"a time two days ahead is refused": {
			at(50, now.Add(trust.MaxClockSkew+time.Second)), mine, 49, refusal.NotYetIssued,
		},
		"a time without a JSON form is refused": {
			at(50, time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -12*3600))), mine, 49,
			refusal.NotYetIssued,
		},
		"a missing time is refused": {
			at(50, time.Time{}), mine, 49, refusal.Malformed,
		},
		"an impossible last sequence is ignored": {at(50, now), mine, math.MaxInt64, ""},
		"a plausible last sequence is compared":  {at(50, now), mine, ahead, refusal.Rollback},
		"sequences start over with a new key":    {introducing(at(1, now)), next, ahead, ""},
		"sequences continue if the same key enrolls again": {
			introducing(at(50, now)), mine, ahead, refusal.Rollback,
		},
		"the sequence of a new key has the same upper limit": {
			introducing(at(ahead+1, now)), next, 49, refusal.NotYetIssued,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := VerifyReport(response(t, c.report, c.signer), Reporter{
				Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, mine), LastSequence: c.last, Now: now,
				Enroll: tokenChecker,
			})
			trusttest.WantReason(t, err, c.want)
		})
	}
}

func TestNextReportSequenceFollowsTheClock(t *testing.T) {
	now := trusttest.Now
	day := trust.MaxClockSkew
	ahead := now.Add(day).UnixMilli()
	for name, c := range map[string]struct {
		last     int64
		verified time.Time
		want     int64
	}{
		"first sequence is the current time":             {0, time.Time{}, now.UnixMilli()},
		"second sequence at the same time is one higher": {now.UnixMilli(), time.Time{}, now.UnixMilli() + 1},
		"clock set back by hours": {
			now.Add(20 * time.Hour).UnixMilli(), now, now.Add(20*time.Hour).UnixMilli() + 1,
		},
		"clock set back by a year": {
			now.AddDate(1, 0, 0).UnixMilli(), now, now.UnixMilli(),
		},
		"largest possible sequence": {math.MaxInt64, now, now.UnixMilli()},
		"clock within the allowed skew": {
			now.Add(-2 * day).UnixMilli(), now.Add(-day), now.UnixMilli(),
		},
		"clock beyond the allowed skew": {0, now.Add(-3 * day), now.Add(-3 * day).UnixMilli()},
		"clock beyond the allowed skew, last sequence of that clock": {
			now.Add(-2 * day).UnixMilli(), now.Add(-3 * day), now.Add(-2*day).UnixMilli() + 1,
		},
		"last sequence as far ahead as allowed": {ahead, now, ahead + 1},
	} {
		if got := NextReportSequence(c.last, now, c.verified); got != c.want {
			t.Errorf("%s: got sequence %d, want %d", name, got, c.want)
		}
	}
}

func TestReportOverALimitIsRefused(t *testing.T) {
	signer := trusttest.NewSigner(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	for field, change := range map[string]func(*Report){
		"agentVersion":       func(r *Report) { r.AgentVersion = long(129) },
		"kubernetesVersion":  func(r *Report) { r.KubernetesVersion = long(129) },
		"clusterUID":         func(r *Report) { r.ClusterUID = long(129) },
		"recipient":          func(r *Report) { r.Recipient = long(129) },
		"certificate":        func(r *Report) { r.Certificate = long(9000) },
		"certificateRequest": func(r *Report) { r.CertificateRequest = long(9000) },
		"agentProblem":       func(r *Report) { r.AgentProblem = long(513) },
		"observed.digest":    func(r *Report) { r.Observed.Digest = "sha256:me" },
		"refused":            func(r *Report) { r.Refused = make([]RefusedBundle, 9) },
		"refused[0]":         func(r *Report) { r.Refused = []RefusedBundle{{Detail: long(513)}} },
		"refused[0].reason":  func(r *Report) { r.Refused = []RefusedBundle{{Reason: "is forbidden"}} },
		"decided":            func(r *Report) { r.Decided = make([]string, 1001) },
		"decided[0]":         func(r *Report) { r.Decided = []string{long(318)} },
		"secrets":            func(r *Report) { r.Secrets = &ReportedSecrets{Trouble: long(513)} },
		"secrets.reason":     func(r *Report) { r.Secrets = &ReportedSecrets{Reason: "no, thanks"} },
		"watched":            func(r *Report) { r.Watched = make([]ReportedWatch, 33) },
		"watched[0]":         func(r *Report) { r.Watched = []ReportedWatch{{Objects: make([]WatchedObject, 65)}} },
		"truncated":          func(r *Report) { r.Truncated = &Truncated{Modules: -1} },
		"trouble":            func(r *Report) { r.Trouble = &ReportedTrouble{Message: long(513)} },
		"trouble.reason":     func(r *Report) { r.Trouble = &ReportedTrouble{Reason: "\x1b[2J"} },
		"takeover.phase":     func(r *Report) { r.Takeover = &ReportedTakeover{Phase: "finish"} },
		"takeover.message": func(r *Report) {
			r.Takeover = &ReportedTakeover{Phase: TakeoverClean, Message: long(513)}
		},
		"takeover.adopted": func(r *Report) {
			r.Takeover = &ReportedTakeover{Phase: TakeoverAdopt, Adopted: make([]string, 501)}
		},
		"takeover.adopted[0]": func(r *Report) {
			r.Takeover = &ReportedTakeover{Phase: TakeoverAdopt, Adopted: []string{long(318)}}
		},
		"takeover.removed": func(r *Report) {
			r.Takeover = &ReportedTakeover{Phase: TakeoverClean, Removed: make([]ObjectRef, 65)}
		},
		"takeover.removed[0]": func(r *Report) {
			r.Takeover = &ReportedTakeover{Phase: TakeoverClean, Removed: []ObjectRef{{Version: "v1", Kind: "Service"}}}
		},
		"modules":            func(r *Report) { r.Modules = make([]ReportedModule, 501) },
		"modules[0].name":    func(r *Report) { r.Modules[0].Name = long(318) },
		"modules[1].name":    func(r *Report) { r.Modules = append(r.Modules, r.Modules[0]) },
		"modules[0]":         func(r *Report) { r.Modules[0].Version = long(129) },
		"modules[0].reason":  func(r *Report) { r.Modules[0].Reason = reason.Reason(long(65)) },
		"modules[0].message": func(r *Report) { r.Modules[0].Message = long(513) },
		"modules[0]: manifest and resource": func(r *Report) {
			r.Modules[0].Manifest = &v1beta2.TrackingObject{PartialMeta: v1beta2.PartialMeta{Name: long(318)}}
		},
		"kyma.spec.modules": func(r *Report) {
			r.Kyma = &ReportedKyma{Spec: v1beta2.KymaSpec{Modules: make([]v1beta2.Module, 501)}}
		},
		"kyma.spec.modules[0]": func(r *Report) {
			r.Kyma = &ReportedKyma{Spec: v1beta2.KymaSpec{Modules: []v1beta2.Module{{Name: long(318)}}}}
		},
	} {
		t.Run(field, func(t *testing.T) {
			report := sampleReport()
			change(&report)
			_, err := VerifyReport(response(t, report, signer), Reporter{
				Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, signer),
			})
			trusttest.WantReason(t, err, refusal.Malformed)
			if !strings.Contains(err.Error(), "report: "+field) || len(err.Error()) > 1024 {
				t.Errorf("got error %v, want a short error that names %s", err, field)
			}
		})
	}
}

func TestErrorForALongReportFieldContainsItsLength(t *testing.T) {
	signer := trusttest.NewSigner(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		change func(*Report)
		want   string
	}{
		"secrets: trouble": {
			func(r *Report) { r.Secrets = &ReportedSecrets{Trouble: long(513)} },
			"secrets.trouble: 513 bytes, must be at most 512",
		},
		"secrets: revision": {
			func(r *Report) { r.Secrets = &ReportedSecrets{Revision: long(129)} },
			"secrets.revision: 129 bytes, must be at most 128",
		},
		"watched: trouble": {
			func(r *Report) { r.Watched = []ReportedWatch{{Trouble: long(513)}} },
			"trouble: 513 bytes, must be at most 512",
		},
		"watched: watcher": {
			func(r *Report) { r.Watched = []ReportedWatch{{Watcher: long(254)}} },
			"watcher: 254 bytes, must be at most 253",
		},
		"trouble: message": {
			func(r *Report) { r.Trouble = &ReportedTrouble{Message: long(513)} },
			"trouble.message: 513 bytes, must be at most 512",
		},
		"trouble: reason": {
			func(r *Report) { r.Trouble = &ReportedTrouble{Reason: long(129)} },
			"trouble.reason: 129 bytes, must be at most 128",
		},
	} {
		t.Run(name, func(t *testing.T) {
			report := sampleReport()
			c.change(&report)
			_, err := VerifyReport(response(t, report, signer), Reporter{
				Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, signer),
			})
			trusttest.WantReason(t, err, refusal.Malformed)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestReasonsFromALaterVersionAreAccepted(t *testing.T) {
	signer := trusttest.NewSigner(t)
	report := sampleReport()
	report.Modules[0].Reason, report.Secrets = "Later", &ReportedSecrets{Revision: "1", Reason: "Later2", Trouble: "x"}
	got, err := VerifyReport(response(t, report, signer), Reporter{
		Runtime: trusttest.Runtime, Key: trusttest.PublicKey(t, signer),
	})
	if err != nil || got.Modules[0].Reason != "Later" || got.Secrets.Reason != "Later2" {
		t.Errorf("got modules %+v, error %v, want the reasons of the report", got.Modules, err)
	}
}

func TestExternalTextIsShortenedAndPrintable(t *testing.T) {
	const escapes = "a\x1b]0;owned\a\u202e\nb\xff"
	for _, shown := range []string{Bounded(escapes, 64), Quote(escapes, 64)} {
		for _, r := range shown {
			if !unicode.IsPrint(r) && r != '\n' { // line ends are harmless
				t.Errorf("printable text %q contains %q", shown, r)
			}
		}
	}
	if got := Bounded("grün, 100 % \"so\"", 64); got != "grün, 100 % \"so\"" {
		t.Errorf("got bounded text %s, want it unchanged", got)
	}
	if got := Quote(strings.Repeat("ü", 100), 9); got != `"üüüü"...` {
		t.Errorf("got quoted text %s, want four letters and an ellipsis", got)
	}
}
