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

// Limits for reports. Agents comply with these limits, and control planes refuse a report that exceeds a limit.
const (
	// MaxModuleNameBytes limits the requested name of a module. NAMESPACE/NAME is the longest form.
	MaxModuleNameBytes = maxNamespaceBytes + 1 + maxNameBytes
	// MaxVersionBytes limits a version, a channel and other short names.
	MaxVersionBytes = 128
	maxPEMBytes     = 8 << 10
	maxQuotedBytes  = 64
)

// maxReportSequence returns the highest sequence that a report can have at the given time. A sequence is a time in Unix
// milliseconds.
func maxReportSequence(now time.Time) int64 { return now.Add(trust.MaxClockSkew).UnixMilli() }

// NextReportSequence returns the sequence for an agent's next report. The arguments are the sequence of its previous
// report (or 0), the time on the runtime's clock, and the latest time in a signed document that the agent verified (or
// zero). If the clock is ahead of the verified time by more than trust.MaxClockSkew, the sequence is based on the
// verified time.
func NextReportSequence(last int64, now, verified time.Time) int64 {
	if last > maxReportSequence(now) {
		last = 0
	}
	if !verified.IsZero() && now.After(verified.Add(trust.MaxClockSkew)) {
		now = verified
	}
	return NextSequence(last, now)
}

// CheckReportTime returns a refusal if the report's time or sequence is ahead of now by more than trust.MaxClockSkew.
func CheckReportTime(report Report, now time.Time) *refusal.Error {
	if !report.Time.After(now.Add(trust.MaxClockSkew)) && report.Sequence <= maxReportSequence(now) {
		return nil
	}
	return refusal.New(refusal.NotYetIssued,
		"report %d has time %s, which is %s ahead of this clock (%s); at most %s is allowed: correct the "+
			"runtime's clock, or this one",
		report.Sequence, shownTime(report.Time),
		max(report.Time.Sub(now), time.UnixMilli(report.Sequence).Sub(now)).Round(time.Second), formatTime(now),
		trust.MaxClockSkew)
}

func (from Reporter) checkClock(report Report, enrolled bool) *refusal.Error {
	last := from.LastSequence
	if enrolled {
		last = 0 // LastSequence belongs to the previous key
	}
	if !from.Now.IsZero() {
		if err := CheckReportTime(report, from.Now); err != nil {
			return err
		}
		if last > maxReportSequence(from.Now) {
			// A LastSequence from the future would make the control plane refuse every later report.
			last = 0
		}
	}
	if report.Sequence < 1 || report.Sequence < last {
		return refusal.New(refusal.Rollback, "report %d is older than the accepted report %d", report.Sequence, last)
	}
	return nil
}

// shownTime formats a time in RFC 3339. This format does not allow years after 9999. For a later year, shownTime
// returns only the year.
func shownTime(t time.Time) string {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return fmt.Sprintf("the year %d", year)
	}
	return t.UTC().Format(time.RFC3339)
}

// Check returns an error if a report exceeds a limit or is inconsistent. The error names the field.
func (r Report) Check() error {
	// The control plane stores the time as JSON, which only allows years up to 9999.
	if year := r.Time.UTC().Year(); year < 1970 || year > 9999 {
		return fmt.Errorf("time: %s, must be the current time of the runtime", shownTime(r.Time))
	}
	for _, text := range []struct {
		field, value string
		most         int
	}{
		{"agentVersion", r.AgentVersion, MaxVersionBytes}, {"kubernetesVersion", r.KubernetesVersion, MaxVersionBytes},
		{"clusterUID", r.ClusterUID, MaxVersionBytes}, {"recipient", r.Recipient, MaxVersionBytes},
		{"certificate", r.Certificate, maxPEMBytes}, {"certificateRequest", r.CertificateRequest, maxPEMBytes},
		{"agentProblem", r.AgentProblem, MaxMessageBytes}, {"instance", r.Instance, MaxVersionBytes},
		{"twin", r.Twin, MaxVersionBytes},
		{"follows", r.Follows.String(), MaxVersionBytes},
	} {
		if len(text.value) > text.most {
			return fmt.Errorf("%s: %d bytes, must be at most %d", text.field, len(text.value), text.most)
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
	if err := r.CheckRun.check(); err != nil {
		return fmt.Errorf("checkRun: %w", err)
	}
	return nil
}

func (r Report) checkLists() error {
	if n := len(r.Refused); n > MaxRefusedReported {
		return fmt.Errorf("refused: %d bundles, must be at most %d", n, MaxRefusedReported)
	}
	for i, refused := range r.Refused {
		if len(refused.Detail) > MaxMessageBytes || len(refused.Reason) > MaxVersionBytes ||
			len(refused.Digest) > MaxVersionBytes {
			return fmt.Errorf("refused[%d]: detail is %d bytes, must be at most %d; reason is %d bytes and "+
				"digest is %d bytes, must be at most %d", i, len(refused.Detail), MaxMessageBytes, len(refused.Reason),
				len(refused.Digest), MaxVersionBytes)
		}
		if err := reason.Reason(refused.Reason).Check(); err != nil {
			return fmt.Errorf("refused[%d].reason: %w", i, err)
		}
	}
	if err := checkFeatures(r.Features); err != nil {
		return fmt.Errorf("features%w", err)
	}
	if n := len(r.Decided); n > 2*MaxManifests {
		return fmt.Errorf("decided: %d modules, must be at most %d", n, 2*MaxManifests)
	}
	for i, module := range r.Decided {
		if len(module) > MaxModuleNameBytes {
			return fmt.Errorf("decided[%d]: %d bytes, must be at most %d", i, len(module), MaxModuleNameBytes)
		}
	}
	if n := len(r.Watched); n > MaxWatchers {
		return fmt.Errorf("watched: %d watchers, must be at most %d", n, MaxWatchers)
	}
	for i, w := range r.Watched {
		if len(w.Watcher) > maxNameBytes || len(w.Trouble) > MaxMessageBytes || len(w.Objects) > MaxWatchedReported {
			return fmt.Errorf("watched[%d]: %d objects, must be at most %d; trouble: %d bytes, must be at most %d; "+
				"watcher: %d bytes, must be at most %d", i, len(w.Objects), MaxWatchedReported, len(w.Trouble),
				MaxMessageBytes, len(w.Watcher), maxNameBytes)
		}
	}
	return nil
}

func (r Report) checkTrouble() error {
	if s := r.Secrets; s != nil && (len(s.Trouble) > MaxMessageBytes || len(s.Revision) > MaxVersionBytes) {
		return fmt.Errorf(
			"secrets.trouble: %d bytes, must be at most %d; secrets.revision: %d bytes, must be at most %d",
			len(s.Trouble), MaxMessageBytes, len(s.Revision), MaxVersionBytes)
	}
	if s := r.Secrets; s != nil {
		if err := s.Reason.Check(); err != nil {
			return fmt.Errorf("secrets.reason: %w", err)
		}
	}
	if t := r.Trouble; t != nil && (len(t.Message) > MaxMessageBytes || len(t.Reason) > MaxVersionBytes) {
		return fmt.Errorf(
			"trouble.message: %d bytes, must be at most %d; trouble.reason: %d bytes, must be at most %d",
			len(t.Message), MaxMessageBytes, len(t.Reason), MaxVersionBytes)
	}
	if t := r.Trouble; t != nil {
		if err := reason.Reason(t.Reason).Check(); err != nil {
			return fmt.Errorf("trouble.reason: %w", err)
		}
	}
	if t := r.Truncated; t != nil && (t.Modules < 0 || t.Requested < 0) {
		return errors.New("truncated: counts must not be negative")
	}
	return nil
}

func (r Report) checkModules() error {
	if n := len(r.Modules); n > MaxManifests {
		return fmt.Errorf("modules: %d entries, must be at most %d", n, MaxManifests)
	}
	seen := make(map[string]bool, len(r.Modules))
	for i, m := range r.Modules {
		switch {
		case m.Name == "" || len(m.Name) > MaxModuleNameBytes:
			return fmt.Errorf("modules[%d].name: %d bytes, must be 1 to %d", i, len(m.Name), MaxModuleNameBytes)
		case seen[m.Name]:
			return fmt.Errorf("modules[%d].name: duplicate %s", i, Quote(m.Name, maxQuotedBytes))
		case max(len(m.Channel), len(m.Version), len(m.Wanted)) > MaxVersionBytes:
			return fmt.Errorf("modules[%d]: field channel is %d bytes and field version is %d bytes, must be at most %d",
				i,
				len(m.Channel), max(len(m.Version), len(m.Wanted)), MaxVersionBytes)
		case m.Reason.Check() != nil:
			return fmt.Errorf("modules[%d].reason: %w", i, m.Reason.Check())
		case len(m.Message) > MaxMessageBytes:
			return fmt.Errorf("modules[%d].message: %d bytes, must be at most %d", i, len(m.Message), MaxMessageBytes)
		case !shortObject(m.Manifest) || !shortObject(m.Resource):
			return fmt.Errorf(
				"modules[%d]: manifest and resource: name, namespace and kind must be at most %d bytes each",
				i, MaxModuleNameBytes)
		}
		if err := checkResults(m.Checks); err != nil {
			return fmt.Errorf("modules[%d].%w", i, err)
		}
		if err := m.Details.check(); err != nil {
			return fmt.Errorf("modules[%d].details.%w", i, err)
		}
		seen[m.Name] = true
	}
	return nil
}

func shortObject(o *v1beta2.TrackingObject) bool {
	if o == nil {
		return true
	}
	return max(len(o.APIVersion), len(o.Kind), len(o.PartialMeta.Name),
		len(o.PartialMeta.Namespace)) <= MaxModuleNameBytes
}

func (r Report) checkAsked() error {
	if r.Kyma == nil {
		return nil
	}
	if n := len(r.Kyma.Spec.Modules); n > MaxManifests {
		return fmt.Errorf("kyma.spec.modules: %d entries, must be at most %d", n, MaxManifests)
	}
	for i, m := range r.Kyma.Spec.Modules {
		if longest := max(len(m.Name), len(m.ControllerName),
			len(m.RemoteModuleTemplateRef)); longest > MaxModuleNameBytes {
			return fmt.Errorf("kyma.spec.modules[%d]: name is %d bytes, must be at most %d", i, longest,
				MaxModuleNameBytes)
		}
	}
	return nil
}

func (r *ReportedCheckRun) check() error {
	if r == nil {
		return nil
	}
	if longest := max(len(r.ID), len(r.Version)); longest > MaxVersionBytes {
		return fmt.Errorf("one of the fields id and version is %d bytes, must be at most %d", longest, MaxVersionBytes)
	}
	if len(r.Module) > MaxModuleNameBytes || len(r.Problem) > MaxMessageBytes {
		return fmt.Errorf("field module is %d bytes and field problem is %d bytes, must be at most %d and %d",
			len(r.Module), len(r.Problem), MaxModuleNameBytes, MaxMessageBytes)
	}
	return checkResults(r.Checks)
}

func checkResults(checks []ReportedCheck) error {
	if len(checks) > MaxChecks {
		return fmt.Errorf("checks: %d results, must be at most %d", len(checks), MaxChecks)
	}
	for i, c := range checks {
		switch c.Result {
		case v1beta2.CheckPassed, v1beta2.CheckFailed, v1beta2.CheckInconclusive:
		default:
			return fmt.Errorf("checks[%d].result: %s: must be Passed, Failed or Inconclusive",
				i, Quote(string(c.Result), maxCheckNameBytes))
		}
		if len(c.Name) > maxCheckNameBytes || len(c.Message) > MaxCheckMessageBytes ||
			len(c.Value) > MaxCheckValueBytes || len(c.Before) > MaxCheckValueBytes {
			return fmt.Errorf("checks[%d]: one of the fields name, message, value and before is too long", i)
		}
		if i > 0 && checks[i-1].Name >= c.Name {
			return fmt.Errorf("checks[%d].name: %s: names must be sorted and unique", i,
				Quote(c.Name, maxCheckNameBytes))
		}
	}
	return nil
}
