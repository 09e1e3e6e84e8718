package ingest

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/silence"
)

// SilentStatus returns a Kyma's status while the publisher cannot read the runtime's reports. It returns true if the
// runtime is silent. carried and unrecorded correspond to Facts.IsCarried and Facts.UnrecordedUntil.
func SilentStatus(
	before v1beta2.KymaStatus, generation int64, allowed time.Duration, carried bool, unrecorded, now time.Time,
) (v1beta2.KymaStatus, bool) {
	if before.Runtime == nil || before.Runtime.Observed == nil {
		return before, false
	}
	last := silence.LastReport{KnownAt: plan.LastReportTimeOf(*before.Runtime.Observed, carried), PossibleAt: unrecorded}
	if last.State(allowed, now) != silence.Silent {
		return before, false
	}
	after := *before.DeepCopy()
	set := conditionSetter(&after.Conditions, generation, now)
	why := collectReasons(before)
	setReporting(after, Facts{SilenceTimeout: allowed, IsCarried: carried, UnrecordedUntil: unrecorded}, why, now, set)
	after.Runtime.Reasons = nilIfEmpty(why)
	if ready := meta.FindStatusCondition(after.Conditions, v1beta2.ConditionReady); ready == nil ||
		ready.Reason != v1beta2.ReasonPublishFailed {
		set(v1beta2.ConditionReady, v1beta2.ReasonNotReady, readyMessage(after), false)
	}
	after.State = worseState(before.State, v1beta2.StateWarning)
	after.UpdateLastOperation(before, readyMessage(after), now)
	return after, true
}

// setReporting sets the condition Reporting. It returns true if the module states in the status may be outdated.
func setReporting(
	after v1beta2.KymaStatus, facts Facts, why *v1beta2.RuntimeReasons, now time.Time,
	set func(string, string, string, bool),
) bool {
	r := after.Runtime
	switch {
	case facts.ReportRefused != nil:
		why.Report = v1beta2.Reason(refusal.Known(facts.ReportRefused.Reason))
		set(v1beta2.ConditionReporting, v1beta2.ReasonReportRefused, "the latest report was refused: "+
			facts.ReportRefused.Error(), false)
		return true
	case r.Observed == nil:
		why.Report = unreadReason(facts)
		set(v1beta2.ConditionReporting, v1beta2.ReasonNeverReported, "the runtime has never reported"+unreadMessage(facts),
			false)
		return true
	}
	last := plan.LastReportTimeOf(*r.Observed, facts.IsCarried).UTC()
	state := silence.LastReport{KnownAt: last, PossibleAt: facts.UnrecordedUntil}.State(facts.SilenceTimeout, now)
	if state == silence.Uncertain {
		// Keep the condition, because another publisher may have received a newer report.
		return !plan.HasCurrentReport(after.Conditions)
	}
	why.Report = requestReason(facts)
	switch {
	case state == silence.Silent:
		why.Report = unreadReason(facts)
		// The message contains the time of the last report instead of its age, because the age would change the status
		// in every reconcile.
		set(v1beta2.ConditionReporting, v1beta2.ReasonSilent,
			fmt.Sprintf("the last report is from %s, more than the allowed %s ago%s", last.Format(time.RFC3339),
				facts.SilenceTimeout, unreadMessage(facts)), false)
		return true
	case facts.IsCarried:
		latest := fmt.Sprintf("reports are carried by hand: the latest is from %s", last.Format(time.RFC3339))
		set(v1beta2.ConditionReporting, v1beta2.ReasonCarried, latest+omittedParts(facts), true)
	case last.Sub(r.Observed.Time.Time) > trust.MaxClockSkew:
		set(v1beta2.ConditionReporting, v1beta2.ReasonClockBehind,
			fmt.Sprintf(
				"the latest report arrived at %s and is from %s by the runtime's clock (difference %s): correct the "+
					"clock of the runtime or of the control plane, or find the cause of the delay",
				last.Format(time.RFC3339), r.Observed.Time.UTC().Format(time.RFC3339),
				last.Sub(r.Observed.Time.Time)),
			false)
		return true
	case facts.Report != nil && facts.Report.Truncated != nil:
		set(v1beta2.ConditionReporting, v1beta2.ReasonTruncated, "the runtime reports"+omittedParts(facts), true)
	default:
		set(v1beta2.ConditionReporting, v1beta2.ReasonReported, "the runtime reports", true)
	}
	return false
}

// omittedParts describes the parts that a truncated report omits.
func omittedParts(facts Facts) string {
	if facts.Report == nil || facts.Report.Truncated == nil {
		return ""
	}
	var parts []string
	t := facts.Report.Truncated
	if t.Requested > 0 && requestReason(facts) == "" {
		return "; the module request of the runtime's Kyma is invalid: see condition Synced"
	}
	if t.Requested > 0 {
		parts = append(parts, fmt.Sprintf(
			"the %d modules that its Kyma requests are ignored, and the previous request stays in effect: request "+
				"fewer modules",
			t.Requested))
	}
	if t.Modules > 0 {
		parts = append(parts, fmt.Sprintf("%d installed modules are omitted", t.Modules))
	}
	if t.Messages {
		parts = append(parts, "messages are shortened or omitted")
	}
	if t.Objects || t.Lists {
		parts = append(parts, "details are omitted")
	}
	return "; its report is truncated to fit: " + strings.Join(parts, "; ")
}

// requestReason returns RequestTruncated if the report is truncated and omits the requested modules. Otherwise, it
// returns "".
func requestReason(facts Facts) v1beta2.Reason {
	t := reportedTrouble(facts)
	if facts.Report == nil || !facts.Report.OmitsRequest() || t != nil && t.Reason == v1beta2.ReasonPinsUnreadable {
		return ""
	}
	return v1beta2.Reason(reason.RequestTruncated)
}

func unreadReason(facts Facts) v1beta2.Reason {
	if facts.ReportUnread == nil {
		return ""
	}
	return v1beta2.Reason(reason.ReportUnreadable)
}

func unreadMessage(facts Facts) string {
	if facts.ReportUnread == nil {
		return ""
	}
	return ", and its report cannot be read: " + facts.ReportUnread.Error()
}

// If only the last report's time has changed, the status is updated after updateDelay plus a part of updateSpread. The
// part depends on the runtime ID, so that updates are spread over time. The sum must be less than plan.MaxUnrecorded.
const (
	updateDelay  = 18 * time.Hour
	updateSpread = 5 * time.Hour
)

// NeedsUpdate reports whether a new status must be written: it differs from the previous status, or the report time in
// the previous status is too old.
func NeedsUpdate(before, after v1beta2.KymaStatus) bool {
	was, is := before.Runtime, after.Runtime
	if was != nil && was.Observed != nil && was.Observed.Heard != nil && is != nil && is.Observed != nil &&
		is.Observed.Heard != nil {
		if !is.Observed.Heard.Time.Before(NextUpdate(before)) {
			return true
		}
		runtime, observed := *is, *is.Observed
		observed.Time, observed.Heard, runtime.ReportSequence = was.Observed.Time, was.Observed.Heard,
			was.ReportSequence
		runtime.Observed, after.Runtime = &observed, &runtime
	}
	return !equality.Semantic.DeepEqual(before, after)
}

// NextUpdate returns the time at which the status must be written even if only the last report's time has changed. It
// returns zero if the runtime has never reported.
func NextUpdate(status v1beta2.KymaStatus) time.Time {
	if status.Runtime == nil || status.Runtime.Observed == nil || status.Runtime.Observed.Heard == nil {
		return time.Time{}
	}
	sum := fnv.New32a()
	sum.Write([]byte(status.Runtime.ID))
	return status.Runtime.Observed.Heard.Add(updateDelay + updateSpread*time.Duration(sum.Sum32()%1000)/1000)
}
