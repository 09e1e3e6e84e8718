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

func TestStatusKeepsReasons(t *testing.T) {
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
		"a healthy runtime":                {func(*Facts) {}, nil},
		"a module in error":                {reports("Error", reason.Forbidden), keda("Forbidden", "")},
		"a module in error of an old one":  {reports("Error", ""), keda("Other", "")},
		"a reason of a later version":      {reports("Warning", "Later"), keda("Other", "")},
		"a reason of another list":         {reports("Error", reason.ModuleUnknown), keda("Other", "")},
		"a module that is being installed": {reports("Processing", reason.Installing), nil},
		"an upgrade before its window": {func(f *Facts) {
			m := &f.Report.Modules[0]
			m.Version, m.Maintenance, m.Reason = "0.9.0", true, reason.WindowMissing
		}, keda("WindowMissing", "")},
		"a module that does not resolve": {problem("Warning", reason.ChannelMissing), keda("", "ChannelMissing")},
		"a problem of an old agent":      {problem("Error", ""), keda("", "Other")},
		"a remark":                       {problem("Ready", ""), nil},
		"both": {func(f *Facts) {
			reports("Error", reason.Timeout)(f)
			problem("Warning", reason.PinUnavailable)(f)
		}, keda("Timeout", "PinUnavailable")},
		"pins that cannot be parsed": {fails(reason.Errorf(reason.PinsInvalid, "x")), &reasons{Publish: "PinsInvalid"}},
		"an error without a reason":  {fails(errors.New("runtime id x")), &reasons{Publish: "Other"}},
		"an expired root":            {fails(refusal.New(refusal.RootExpired, "x")), &reasons{Publish: "RootExpired"}},
		"keys that are not listed": {
			fails(refusal.New(refusal.UnknownKey, "x")), &reasons{Publish: "KeysNotAccepted"},
		},
		"another refusal": {fails(refusal.New(refusal.TooLarge, "x")), &reasons{Publish: "Other"}},
		"Secrets that are not sealed": {func(f *Facts) {
			f.SecretsError = errors.Join(reason.Errorf(reason.SecretMissing, "x"), errors.New("y"))
		}, &reasons{Secrets: "SecretMissing"}},
		"Secrets that are not written": {func(f *Facts) {
			f.Published.Predicate.Sealed = &bundle.Sealed{Revision: "1"}
			f.Report.Secrets = &bundle.ReportedSecrets{Revision: "1", Reason: reason.NamespaceMissing, Trouble: "x"}
		}, &reasons{Secrets: "NamespaceMissing"}},
		"a refused report": {
			func(f *Facts) { f.ReportRefused = refusal.New(refusal.Revoked, "x") }, &reasons{Report: "Revoked"},
		},
		"a request that is left out": {
			func(f *Facts) { f.Report.Truncated = &bundle.Truncated{Asked: 900} }, &reasons{Report: "RequestTruncated"},
		},
		"a request that cannot be parsed": {func(f *Facts) {
			f.Report.Truncated = &bundle.Truncated{Asked: 900}
			f.Report.Trouble = &bundle.ReportedTrouble{Reason: v1beta2.ReasonPinsUnreadable, Message: "x"}
		}, nil},
		"a refused bundle": {func(f *Facts) {
			f.Report.Refused = []bundle.RefusedBundle{{Reason: "Later"}, {Reason: refusal.Downgrade}}
		}, &reasons{Bundle: "Downgrade"}},
		"a bundle that is refused for a later reason": {func(f *Facts) {
			f.Report.Refused = []bundle.RefusedBundle{{Reason: "Later"}}
		}, &reasons{Bundle: "Other"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy().with(c.change)
			got := Status(s.before, s.facts, s.now)
			if !reflect.DeepEqual(got.Runtime.Reasons, c.want) {
				t.Errorf("got %+v, want %+v", got.Runtime.Reasons, c.want)
			}
			again := healthy()
			if after := Status(got, again.facts, again.now); after.Runtime.Reasons != nil {
				t.Errorf("a healthy runtime keeps %+v", after.Runtime.Reasons)
			}
		})
	}
}

func TestMissingReportHasAReason(t *testing.T) {
	s := healthy().with(func(f *Facts) { f.ReportUnread = errors.New("403") })
	if got := Status(s.before, s.facts, s.now); got.Runtime.Reasons != nil {
		t.Errorf("before the silence: %+v", got.Runtime.Reasons)
	}
	silent := Status(s.before, s.facts, s.now.Add(2*time.Hour))
	if r := silent.Runtime.Reasons; r == nil || r.Report != "ReportUnreadable" {
		t.Errorf("after it: %+v", r)
	}
	later, _ := Unheard(silent, 3, allowedSilence, false, time.Time{}, s.now.Add(3*time.Hour))
	if later.Runtime.Reasons != nil {
		t.Errorf("while nothing can be read: %+v", later.Runtime.Reasons)
	}
	refused := Unwritable(s.before, s.before, 3, errors.New("x"), s.now)
	if r := refused.Runtime.Reasons; r == nil || r.Report != "Other" {
		t.Errorf("a status that cannot be written: %+v", r)
	}
}
