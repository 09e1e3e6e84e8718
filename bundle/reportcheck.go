package bundle

import (
	"errors"
	"fmt"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Limits of what a report holds. Agents keep to them, and control planes refuse a report that does not.
const (
	// MaxModuleNameBytes bounds the name of a module as it is asked for: NAMESPACE/NAME is the longest form.
	MaxModuleNameBytes = maxNamespaceBytes + 1 + maxNameBytes
	// MaxVersionBytes bounds a version, a channel, and whatever else names a thing in a few words.
	MaxVersionBytes = 128
	// maxPEMBytes bounds a certificate and a request for one.
	maxPEMBytes = 8 << 10
	// maxQuotedBytes bounds what is quoted of what somebody else wrote.
	maxQuotedBytes = 64
)

// aheadOf is the highest sequence that a report may have now: it is made of milliseconds, and clocks differ by no more
// than trust.MaxClockSkew.
func aheadOf(now time.Time) int64 { return now.Add(trust.MaxClockSkew).UnixMilli() }

// NextReportSequence returns the sequence of the report after the one with the last, 0 for none. Verified is the newest
// time that somebody trusted signed, zero where there is none: a clock that is further ahead of it than clocks differ
// may be wrong, and a control plane would refuse what it gives, or take it and refuse what comes once the clock was
// set. The verified time counts in its place. The sequence goes back only from one that nobody has accepted.
func NextReportSequence(last int64, now, verified time.Time) int64 {
	if last > aheadOf(now) {
		last = 0
	}
	if !verified.IsZero() && now.After(verified.Add(trust.MaxClockSkew)) {
		now = verified
	}
	return NextSequence(last, now)
}

// checkClock decides whether a report can be of this time, and is not older than another of the same key.
func (from Reporter) checkClock(report Report, enrolled bool) *refusal.Error {
	last := from.LastSequence
	if enrolled {
		last = 0 // that of another key
	}
	if !from.Now.IsZero() {
		newest := from.Now.Add(trust.MaxClockSkew)
		if report.Time.After(newest) || report.Sequence > aheadOf(from.Now) {
			return refusal.New(refusal.NotYetIssued, "report %d is of %s, %s ahead of this clock, which says %s, more than %s: set the runtime's clock, or this one if it is wrong",
				report.Sequence, shownTime(report.Time), max(report.Time.Sub(from.Now), time.UnixMilli(report.Sequence).Sub(from.Now)).Round(time.Second),
				stamp(from.Now), trust.MaxClockSkew)
		}
		if last > aheadOf(from.Now) {
			last = 0 // no report of this time can follow it, and none is accepted that could have led there
		}
	}
	if report.Sequence < 1 || report.Sequence < last {
		return refusal.New(refusal.Rollback, "report %d is older than %d, which was accepted before", report.Sequence, last)
	}
	return nil
}

// shownTime returns a time from outside as text, which RFC 3339 has none for beyond the year 9999.
func shownTime(t time.Time) string {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return fmt.Sprintf("the year %d", year)
	}
	return t.UTC().Format(time.RFC3339)
}

// Check returns what in a report is more than its limits allow, or can be no report of a runtime, naming the field.
func (r Report) Check() error {
	// Whatever is written down as a time has to be one that JSON can hold.
	if year := r.Time.UTC().Year(); year < 1970 || year > 9999 {
		return fmt.Errorf("time: is of %s, want the runtime's clock", shownTime(r.Time))
	}
	for _, text := range []struct {
		field, value string
		most         int
	}{
		{"agentVersion", r.AgentVersion, MaxVersionBytes}, {"kubernetesVersion", r.KubernetesVersion, MaxVersionBytes},
		{"clusterUID", r.ClusterUID, MaxVersionBytes}, {"recipient", r.Recipient, MaxVersionBytes},
		{"certificate", r.Certificate, maxPEMBytes}, {"certificateRequest", r.CertificateRequest, maxPEMBytes},
		{"agentProblem", r.AgentProblem, MaxMessageBytes}, {"instance", r.Instance, MaxVersionBytes}, {"twin", r.Twin, MaxVersionBytes},
		{"follows", r.Follows.String(), MaxVersionBytes},
	} {
		if len(text.value) > text.most {
			return fmt.Errorf("%s: %d bytes, at most %d", text.field, len(text.value), text.most)
		}
	}
	if r.Owner != nil {
		if err := r.Owner.Check(); err != nil {
			return fmt.Errorf("owner.%w", err)
		}
	}
	if r.Observed != nil {
		if err := r.Observed.Digest.Validate(); err != nil {
			return fmt.Errorf("observed.digest: %w", err)
		}
	}
	for _, check := range []func() error{r.checkLists, r.checkTrouble, r.checkTakeover, r.checkModules, r.checkAsked} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkLists checks what is neither a module that is installed nor one that is asked for.
func (r Report) checkLists() error {
	if n := len(r.Refused); n > MaxRefusedReported {
		return fmt.Errorf("refused: %d bundles, at most %d", n, MaxRefusedReported)
	}
	for i, refused := range r.Refused {
		if len(refused.Detail) > MaxMessageBytes || len(refused.Reason) > MaxVersionBytes || len(refused.Digest) > MaxVersionBytes {
			return fmt.Errorf("refused[%d]: detail of %d bytes, at most %d", i, len(refused.Detail), MaxMessageBytes)
		}
		if err := reason.Reason(refused.Reason).Check(); err != nil {
			return fmt.Errorf("refused[%d].reason: %w", i, err)
		}
	}
	if err := checkFeatures(r.Features); err != nil {
		return fmt.Errorf("features%w", err)
	}
	if n := len(r.Decided); n > 2*MaxManifests {
		return fmt.Errorf("decided: %d modules, at most %d", n, 2*MaxManifests)
	}
	for i, module := range r.Decided {
		if len(module) > MaxModuleNameBytes {
			return fmt.Errorf("decided[%d]: %d bytes, at most %d", i, len(module), MaxModuleNameBytes)
		}
	}
	if n := len(r.Watched); n > MaxWatchers {
		return fmt.Errorf("watched: %d watchers, at most %d", n, MaxWatchers)
	}
	for i, w := range r.Watched {
		if len(w.Watcher) > maxNameBytes || len(w.Trouble) > MaxMessageBytes || len(w.Objects) > MaxWatchedReported {
			return fmt.Errorf("watched[%d]: %d objects, at most %d; trouble of %d bytes, at most %d", i, len(w.Objects), MaxWatchedReported, len(w.Trouble), MaxMessageBytes)
		}
	}
	return nil
}

// checkTrouble checks what the agent says of itself.
func (r Report) checkTrouble() error {
	if s := r.Secrets; s != nil && (len(s.Trouble) > MaxMessageBytes || len(s.Revision) > MaxVersionBytes) {
		return fmt.Errorf("secrets: trouble of %d bytes, at most %d", len(s.Trouble), MaxMessageBytes)
	}
	if s := r.Secrets; s != nil {
		if err := s.Reason.Check(); err != nil {
			return fmt.Errorf("secrets.reason: %w", err)
		}
	}
	if t := r.Trouble; t != nil && (len(t.Message) > MaxMessageBytes || len(t.Reason) > MaxVersionBytes) {
		return fmt.Errorf("trouble: message of %d bytes, at most %d", len(t.Message), MaxMessageBytes)
	}
	if t := r.Trouble; t != nil {
		if err := reason.Reason(t.Reason).Check(); err != nil {
			return fmt.Errorf("trouble.reason: %w", err)
		}
	}
	if t := r.Truncated; t != nil && (t.Modules < 0 || t.Asked < 0) {
		return errors.New("truncated: counts what is left out, which is no less than 0")
	}
	return nil
}

func (r Report) checkModules() error {
	if n := len(r.Modules); n > MaxManifests {
		return fmt.Errorf("modules: %d, at most %d", n, MaxManifests)
	}
	seen := make(map[string]bool, len(r.Modules))
	for i, m := range r.Modules {
		switch {
		case m.Name == "" || len(m.Name) > MaxModuleNameBytes:
			return fmt.Errorf("modules[%d].name: %d bytes, want 1 to %d", i, len(m.Name), MaxModuleNameBytes)
		case seen[m.Name]:
			return fmt.Errorf("modules[%d].name: %s is there twice", i, Quote(m.Name, maxQuotedBytes))
		case max(len(m.Channel), len(m.Version), len(m.Wanted)) > MaxVersionBytes:
			return fmt.Errorf("modules[%d]: channel of %d and version of %d bytes, at most %d", i, len(m.Channel), max(len(m.Version), len(m.Wanted)), MaxVersionBytes)
		case m.Reason.Check() != nil:
			return fmt.Errorf("modules[%d].reason: %w", i, m.Reason.Check())
		case len(m.Message) > MaxMessageBytes:
			return fmt.Errorf("modules[%d].message: %d bytes, at most %d", i, len(m.Message), MaxMessageBytes)
		case !shortObject(m.Manifest) || !shortObject(m.Resource):
			return fmt.Errorf("modules[%d]: manifest or resource has a name, namespace or kind of more than %d bytes", i, MaxModuleNameBytes)
		}
		seen[m.Name] = true
	}
	return nil
}

func shortObject(o *v1beta2.TrackingObject) bool {
	if o == nil {
		return true
	}
	return max(len(o.APIVersion), len(o.Kind), len(o.PartialMeta.Name), len(o.PartialMeta.Namespace)) <= MaxModuleNameBytes
}

func (r Report) checkAsked() error {
	if r.Kyma == nil {
		return nil
	}
	if n := len(r.Kyma.Spec.Modules); n > MaxManifests {
		return fmt.Errorf("kyma.spec.modules: %d, at most %d", n, MaxManifests)
	}
	for i, m := range r.Kyma.Spec.Modules {
		if longest := max(len(m.Name), len(m.ControllerName), len(m.RemoteModuleTemplateRef)); longest > MaxModuleNameBytes {
			return fmt.Errorf("kyma.spec.modules[%d]: has a name of %d bytes, at most %d", i, longest, MaxModuleNameBytes)
		}
	}
	return nil
}
