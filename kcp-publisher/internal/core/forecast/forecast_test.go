package forecast

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/window"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/catalog"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

var saturday = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// offers returns a catalog with the given modules, each as "module channel version ...". Version 3.0.0 requires
// downtime.
func offers(t *testing.T, modules ...string) *catalog.Snapshot {
	t.Helper()
	var templates []v1beta2.ModuleTemplate
	var metas []v1beta2.ModuleReleaseMeta
	for _, text := range modules {
		fields := strings.Fields(text)
		meta := v1beta2.ModuleReleaseMeta{
			ObjectMeta: metav1.ObjectMeta{Name: fields[0]},
			Spec: v1beta2.ModuleReleaseMetaSpec{
				ModuleName: fields[0], OcmComponentName: "example.com/" + fields[0],
			},
		}
		for i := 1; i+1 < len(fields); i += 2 {
			meta.Spec.Channels = append(meta.Spec.Channels,
				v1beta2.ChannelVersion{Channel: fields[i], Version: fields[i+1]})
		}
		metas = append(metas, meta)
		for _, version := range []string{"1.0.0", "2.0.0", "3.0.0"} {
			templates = append(templates, v1beta2.ModuleTemplate{
				ObjectMeta: metav1.ObjectMeta{Name: fields[0] + "-" + version},
				Spec: v1beta2.ModuleTemplateSpec{
					ModuleName:       fields[0],
					Version:          version,
					Descriptor:       runtime.RawExtension{Raw: []byte("{}")},
					RequiresDowntime: version == "3.0.0",
				},
			})
		}
	}
	snapshot, err := catalog.New(templates, metas)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

// kedaKyma returns a Kyma that requests keda. published is the published version of keda, or "" if none is
// published.
func kedaKyma(published string, changes ...func(*v1beta2.Kyma)) *v1beta2.Kyma {
	kyma := &v1beta2.Kyma{
		Spec: v1beta2.KymaSpec{
			Channel: "regular",
			Modules: []v1beta2.Module{
				{Name: "keda", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete},
			},
		},
	}
	if published != "" {
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			Published: &v1beta2.PublishedBundle{Versions: map[string]string{"keda": published}},
		}
	}
	for _, change := range changes {
		change(kyma)
	}
	return kyma
}

func inChannel(channel string) func(*v1beta2.Kyma) {
	return func(k *v1beta2.Kyma) { k.Spec.Modules[0].Channel = channel }
}

func pinned(k *v1beta2.Kyma)    { k.Spec.Modules[0].Version = "1.0.0" }
func unmanaged(k *v1beta2.Kyma) { k.Spec.Modules[0].Managed = false }
func nothing(k *v1beta2.Kyma)   { k.Spec.Modules = nil }
func skipping(k *v1beta2.Kyma)  { k.Spec.SkipMaintenanceWindows = true }
func suspended(k *v1beta2.Kyma) {
	k.Labels = map[string]string{v1beta2.LabelSkipReconciliation: v1beta2.True}
}
func deleted(k *v1beta2.Kyma) { k.DeletionTimestamp = new(metav1.NewTime(saturday)) }
func withMailer(k *v1beta2.Kyma) {
	k.Spec.Modules = append(k.Spec.Modules, v1beta2.Module{
		Name: "mailer", Managed: true, CustomResourcePolicy: v1beta2.PolicyCreateAndDelete,
	})
}

func fleetOf(snapshot *catalog.Snapshot, kymas map[string]*v1beta2.Kyma) Fleet {
	for name, kyma := range kymas {
		kyma.Name = name
	}
	return Fleet{Kymas: kymas, Catalog: snapshot, Request: onSundays}
}

func name(kyma *v1beta2.Kyma) string { return kyma.Name }

// onSundays returns the request of a Kyma with a maintenance window on Sundays, or without a window if the Kyma skips
// maintenance windows.
func onSundays(kyma *v1beta2.Kyma) (resolve.Request, error) {
	sundays := &window.Schedule{Windows: []window.Window{{Days: []string{"Sun"}, Begin: "01:00:00Z", End: "05:00:00Z"}}}
	windows := sundays
	if kyma.Spec.SkipMaintenanceWindows {
		windows = nil
	}
	return resolve.Request{
		Requested:   kyma.Spec,
		IsDeleting:  !kyma.DeletionTimestamp.IsZero(),
		Maintenance: windows,
	}, sundays.Check()
}

func forecastOf(t *testing.T, before, after Fleet) Forecast {
	t.Helper()
	f, err := New(before, after, name, saturday)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPromotionForecastListsVersionChanges(t *testing.T) {
	kymas := func() map[string]*v1beta2.Kyma {
		return map[string]*v1beta2.Kyma{
			"a": kedaKyma("1.0.0"), "b": kedaKyma("1.0.0"), "has-it": kedaKyma("2.0.0"), "newer": kedaKyma("3.0.0"),
			"fast":   kedaKyma("3.0.0", inChannel("fast")),
			"pinned": kedaKyma("1.0.0", pinned), "unmanaged": kedaKyma("1.0.0", unmanaged),
			"without": kedaKyma("", nothing),
			"not-yet": kedaKyma(""),
		}
	}
	before := fleetOf(offers(t, "keda regular 1.0.0 fast 3.0.0"), kymas())
	got := forecastOf(t, before, fleetOf(offers(t, "keda regular 2.0.0 fast 3.0.0"), kymas()))
	want := Forecast{Runtimes: 9, Changed: 5, Changes: []Change{
		{Module: "keda", Channel: "regular", To: "2.0.0", Runtimes: []string{"not-yet"}},
		{Module: "keda", Channel: "regular", From: "1.0.0", To: "2.0.0", Runtimes: []string{"a", "b"}},
		{Module: "keda", Channel: "regular", From: "2.0.0", To: "2.0.0", Runtimes: []string{"has-it"}},
		{
			Module:   "keda",
			Channel:  "regular",
			From:     "3.0.0",
			To:       "3.0.0",
			Held:     `module keda stays at version 3.0.0: channel "regular" has 2.0.0, which is older`,
			Runtimes: []string{"newer"},
		},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", text(t, got), text(t, want))
	}
}

func text(t *testing.T, f Forecast) string {
	t.Helper()
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestForecastListsChangesByCause(t *testing.T) {
	regular := "keda regular 1.0.0 fast 2.0.0"
	for name, c := range map[string]struct {
		before, after         *v1beta2.Kyma
		catalogBefore, behind string
		want                  []string // "From To Held", with "-" for an empty field
	}{
		"Kyma that does not change": {kedaKyma("1.0.0"), kedaKyma("1.0.0"), regular, regular, nil},
		"version that was pending before the change": {
			kedaKyma("1.0.0"), kedaKyma("1.0.0"), "keda regular 2.0.0", "keda regular 2.0.0", nil,
		},
		"module moved to another channel": {
			kedaKyma("1.0.0"), kedaKyma("1.0.0", inChannel("fast")), regular, regular, []string{"1.0.0 2.0.0 -"},
		},
		"module removed from the Kyma": {
			kedaKyma("1.0.0"), kedaKyma("1.0.0", nothing), regular, regular, []string{"1.0.0 - -"},
		},
		"unknown module added to the Kyma": {
			kedaKyma("1.0.0"), kedaKyma("1.0.0", withMailer), regular, regular,
			[]string{"- - module mailer is unknown"},
		},
		"upgrade that waits for a maintenance window": {
			kedaKyma("1.0.0"), kedaKyma("1.0.0"), regular, "keda regular 3.0.0", []string{
				"1.0.0 3.0.0 the upgrade to version 3.0.0 requires downtime and waits for the maintenance window " +
					"from 2026-11-22T01:00:00Z to 2026-11-22T05:00:00Z",
			},
		},
		"upgrade that skips maintenance windows": {
			kedaKyma("1.0.0", skipping), kedaKyma("1.0.0", skipping), regular, "keda regular 3.0.0",
			[]string{"1.0.0 3.0.0 -"},
		},
		"first installation without a maintenance window": {
			kedaKyma(""), kedaKyma(""), regular, "keda regular 3.0.0", []string{"- 3.0.0 -"},
		},
		"upgrade of a suspended runtime": {
			kedaKyma("1.0.0", suspended), kedaKyma("1.0.0", suspended), regular, "keda regular 2.0.0", nil,
		},
		"resumed runtime": {
			kedaKyma("1.0.0", suspended), kedaKyma("1.0.0"), "keda regular 2.0.0", "keda regular 2.0.0",
			[]string{"1.0.0 2.0.0 -"},
		},
		"version without a template": {
			kedaKyma("1.0.0"), kedaKyma("1.0.0"), regular, "keda regular 9.0.0", []string{
				`1.0.0 1.0.0 module keda: version 9.0.0 in channel "regular" has no ModuleTemplate`,
			},
		},
		"channel removed from the module": {
			kedaKyma("1.0.0"), kedaKyma("1.0.0"), regular, "keda fast 2.0.0", []string{
				`1.0.0 1.0.0 module keda: channel "regular" has no version`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			kymas := func(k *v1beta2.Kyma) map[string]*v1beta2.Kyma { return map[string]*v1beta2.Kyma{"one": k} }
			f := forecastOf(t, fleetOf(offers(t, c.catalogBefore), kymas(c.before)),
				fleetOf(offers(t, c.behind), kymas(c.after)))
			if len(f.Changes) != len(c.want) || f.Changed != len(c.want) {
				t.Fatalf("got %s\nwant %v", text(t, f), c.want)
			}
			for i, change := range f.Changes {
				got := orNothing(change.From) + " " + orNothing(change.To) + " " + orNothing(change.Held)
				if !strings.HasPrefix(got, c.want[i]) {
					t.Errorf("got  %s\nwant %s", got, c.want[i])
				}
			}
		})
	}
}

func orNothing(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func TestForecastListsAddedAndRemovedRuntimes(t *testing.T) {
	snapshot := offers(t, "keda regular 1.0.0")
	got := forecastOf(
		t,
		fleetOf(
			snapshot,
			map[string]*v1beta2.Kyma{
				"stays": kedaKyma("1.0.0"), "leaves": kedaKyma("1.0.0"), "left": kedaKyma("1.0.0", deleted),
			},
		),
		fleetOf(
			snapshot,
			map[string]*v1beta2.Kyma{
				"stays":  kedaKyma("1.0.0"),
				"leaves": kedaKyma("1.0.0", deleted),
				"left":   kedaKyma("1.0.0", deleted),
				"comes":  kedaKyma(""),
			},
		),
	)
	want := Forecast{Runtimes: 2, Changed: 2, CreatedRuntimes: []string{"comes"}, Leaving: []string{"leaves"},
		Changes: []Change{
			{Module: "keda", Channel: "regular", To: "1.0.0", Runtimes: []string{"comes"}},
			{Module: "keda", Channel: "regular", From: "1.0.0", Runtimes: []string{"leaves"}},
		}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", text(t, got), text(t, want))
	}
	before := fleetOf(snapshot, map[string]*v1beta2.Kyma{"gone": kedaKyma("1.0.0")})
	if _, err := New(before, fleetOf(snapshot, nil), name, saturday); err == nil {
		t.Error("New accepted a Kyma that is missing after the change")
	}
}

func TestForecastListsNewRolloutsWithWaves(t *testing.T) {
	begins := func(names ...string) (all []*fleet.Rollout) {
		for _, name := range names {
			r := &fleet.Rollout{
				Spec: fleet.RolloutSpec{Policy: "slow", Module: "keda", Channel: "regular", From: "1.0.0", To: "2.0.0"},
			}
			r.Name, r.Spec.Waves = name, []fleet.Wave{{Name: "canary"}, {Name: "rest", Approval: true}}
			r.Status.Waves = []fleet.WaveStatus{{Name: "canary", Total: 1}, {Name: "rest", Total: 9}}
			all = append(all, r)
		}
		return all
	}
	before, after := fleetOf(offers(t), nil), fleetOf(offers(t), nil)
	before.NewRollouts, after.NewRollouts = begins("would-begin-anyway"), begins("would-begin-anyway", "b", "a")
	anyway, rejected := begins("rejected-anyway")[0], begins("rejected")[0]
	before.Rejections = []rollout.Rejection{{Channel: "regular", Rollout: anyway}}
	after.Rejections = append(before.Rejections, rollout.Rejection{Channel: "regular", Rollout: rejected},
		rollout.Rejection{Channel: "fast", Rollout: anyway})
	forecast := forecastOf(t, before, after)
	if len(forecast.Warnings) != 2 ||
		!strings.Contains(forecast.Warnings[0],
			"version 2.0.0 of module keda in channel regular: rollout rejected rolled it back") ||
		!strings.Contains(forecast.Warnings[1],
			"version 2.0.0 of module keda in channel fast: rollout rejected-anyway in channel regular rolled it back") {
		t.Errorf("got warnings %q, want one for each new rejection", forecast.Warnings)
	}
	got := forecast.Rollouts
	waves := []Wave{{Name: "canary", Runtimes: 1}, {Name: "rest", Runtimes: 9, Approval: true}}
	want := []Rollout{
		{"a", "slow", "keda", "regular", "1.0.0", "2.0.0", waves},
		{"b", "slow", "keda", "regular", "1.0.0", "2.0.0", waves},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestForecastSkipsKymasThatStayInvalid(t *testing.T) {
	snapshot := offers(t, "keda regular 2.0.0")
	kymas := map[string]*v1beta2.Kyma{"one": kedaKyma("1.0.0")}
	good := func(k *v1beta2.Kyma) (resolve.Request, error) {
		return resolve.Request{Labels: k.Labels, Seed: k.Spec, Requested: k.Spec}, nil
	}
	bad := func(*v1beta2.Kyma) (resolve.Request, error) { return resolve.Request{}, errors.New("annotation") }
	id := func(*v1beta2.Kyma) string { return "one" }
	refused, repaired := Fleet{
		Kymas:   kymas,
		Catalog: snapshot,
		Request: bad,
	}, Fleet{
		Kymas:   kymas,
		Catalog: snapshot,
		Request: good,
	}
	f, err := New(refused, repaired, id, saturday)
	if err != nil || len(f.Changes) != 1 || f.Changes[0].From != "1.0.0" || f.Changes[0].To != "2.0.0" {
		t.Errorf("corrected Kyma: got %+v, %v, want an upgrade from 1.0.0 to 2.0.0", f.Changes, err)
	}
	if f, err := New(refused, refused, id, saturday); err != nil || len(f.Changes) != 0 {
		t.Errorf("Kyma that stays invalid: got %+v, %v, want no change and no error", f.Changes, err)
	}
	if _, err := New(repaired, refused, id, saturday); err == nil {
		t.Error("New returned no error for a Kyma that the change makes invalid")
	}
}
