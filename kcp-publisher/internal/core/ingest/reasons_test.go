package ingest

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

func TestStatusContainsReasonOfEachProblem(t *testing.T) {
	type reasons = v1beta2.RuntimeReasons
	keda := func(runtime, problem string) *reasons {
		return &reasons{
			Modules: []v1beta2.ModuleReasons{
				{Name: "keda", Runtime: v1beta2.Reason(runtime), Problem: v1beta2.Reason(problem)},
			},
		}
	}
	reports := func(state v1beta2.State, r reason.Reason) func(*Facts) {
		return func(f *Facts) { f.Report.Modules[0].State, f.Report.Modules[0].Reason = state, r }
	}
	problem := func(state v1beta2.State, r reason.Reason) func(*Facts) {
		return func(f *Facts) {
			f.Problems = []bundle.Problem{{Module: "keda", State: state, Reason: r, Message: "is forbidden"}}
		}
	}
	fails := func(err error) func(*Facts) {
		return func(f *Facts) { f.PublishError = fmt.Errorf("publish: %w", err) }
	}
	for name, c := range map[string]struct {
		change func(*Facts)
		want   *reasons
	}{
		"healthy runtime":                        {func(*Facts) {}, nil},
		"module in state Error":                  {reports("Error", reason.Forbidden), keda("Forbidden", "")},
		"module in state Error without a reason": {reports("Error", ""), keda("Other", "")},
		"module with an unknown reason":          {reports("Warning", "Later"), keda("Other", "")},
		"module with a reason of the publisher":  {reports("Error", reason.ModuleUnknown), keda("Other", "")},
		"module is progressing":                  {reports("Processing", reason.Installing), nil},
		"upgrade without a maintenance window": {func(f *Facts) {
			m := &f.Report.Modules[0]
			m.Version, m.Maintenance, m.Reason = "0.9.0", true, reason.WindowMissing
		}, keda("WindowMissing", "")},
		"unresolved module": {problem("Warning", reason.ChannelMissing), keda("", "ChannelMissing")},
		"promoted version that cannot be resolved": {func(f *Facts) {
			problem("Error", reason.ValueUndefined)(f)
			f.Problems[0].Version = "2.0.0"
		}, &reasons{Modules: []v1beta2.ModuleReasons{{Name: "keda", Problem: "ValueUndefined", Version: "2.0.0"}}}},
		"problem without a reason": {problem("Error", ""), keda("", "Other")},
		"module with a remark":     {problem("Ready", ""), nil},
		"module in state Error with a problem": {func(f *Facts) {
			reports("Error", reason.Timeout)(f)
			problem("Warning", reason.PinUnavailable)(f)
		}, keda("Timeout", "PinUnavailable")},
		"invalid pins": {
			fails(reason.Errorf(reason.PinsInvalid, "x")), &reasons{Publish: "PinsInvalid"},
		},
		"publish error without a reason": {fails(errors.New("runtime ID x")), &reasons{Publish: "Other"}},
		"expired root of trust": {
			fails(refusal.New(refusal.RootExpired, "x")), &reasons{Publish: "RootExpired"},
		},
		"keys not listed in the root of trust": {
			fails(refusal.New(refusal.UnknownKey, "x")), &reasons{Publish: "KeysNotAccepted"},
		},
		"other refusal by the publisher": {fails(refusal.New(refusal.TooLarge, "x")), &reasons{Publish: "Other"}},
		"Secrets not sealed": {func(f *Facts) {
			f.SecretsError = errors.Join(reason.Errorf(reason.SecretMissing, "x"), errors.New("y"))
		}, &reasons{Secrets: "SecretMissing"}},
		"Secrets not written": {func(f *Facts) {
			f.Published.Predicate.Sealed = &bundle.Sealed{Revision: "1"}
			f.Report.Secrets = &bundle.ReportedSecrets{Revision: "1", Reason: reason.NamespaceMissing, Trouble: "x"}
		}, &reasons{Secrets: "NamespaceMissing"}},
		"refused report": {
			func(f *Facts) { f.ReportRefused = refusal.New(refusal.Revoked, "x") }, &reasons{Report: "Revoked"},
		},
		"request too large for the report": {
			func(f *Facts) { f.Report.Truncated = &bundle.Truncated{Requested: 900} }, &reasons{Report: "RequestTruncated"},
		},
		"invalid request": {func(f *Facts) {
			f.Report.Truncated = &bundle.Truncated{Requested: 900}
			f.Report.Trouble = &bundle.ReportedTrouble{Reason: v1beta2.ReasonPinsUnreadable, Message: "x"}
		}, nil},
		"refused bundle": {func(f *Facts) {
			f.Report.Refused = []bundle.RefusedBundle{{Reason: "Later"}, {Reason: refusal.Downgrade}}
		}, &reasons{Bundle: "Downgrade"}},
		"refused bundle with an unknown reason": {func(f *Facts) {
			f.Report.Refused = []bundle.RefusedBundle{{Reason: "Later"}}
		}, &reasons{Bundle: "Other"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy().with(c.change)
			got := NextStatus(s.before, s.facts, s.now)
			if !reflect.DeepEqual(got.Runtime.Reasons, c.want) {
				t.Errorf("got %+v, want %+v", got.Runtime.Reasons, c.want)
			}
			again := healthy()
			if after := NextStatus(got, again.facts, again.now); after.Runtime.Reasons != nil {
				t.Errorf("after the runtime recovered: got reasons %+v, want none", after.Runtime.Reasons)
			}
		})
	}
}

func TestUnreadableReportHasReasonAfterSilenceTimeout(t *testing.T) {
	s := healthy().with(func(f *Facts) { f.ReportUnread = errors.New("403") })
	if got := NextStatus(s.before, s.facts, s.now); got.Runtime.Reasons != nil {
		t.Errorf("within the allowed silence: got %+v, want no reasons", got.Runtime.Reasons)
	}
	silent := NextStatus(s.before, s.facts, s.now.Add(2*time.Hour))
	if r := silent.Runtime.Reasons; r == nil || r.Report != "ReportUnreadable" {
		t.Errorf("after the allowed silence: got %+v, want ReportUnreadable", r)
	}
	later, _ := SilentStatus(silent, 3, allowedSilence, false, time.Time{}, s.now.Add(3*time.Hour))
	if later.Runtime.Reasons != nil {
		t.Errorf("registry outage: got %+v, want no reasons", later.Runtime.Reasons)
	}
	refused := RefusedStatus(s.before, s.before, 3, errors.New("x"), s.now)
	if r := refused.Runtime.Reasons; r == nil || r.Report != "Other" {
		t.Errorf("status refused by the API server: got %+v, want Other", r)
	}
}
