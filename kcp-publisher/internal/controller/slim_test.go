package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/memo"
)

func newKymaWith20Modules(number int) *v1beta2.Kyma {
	at := metav1.NewTime(noon.Add(time.Duration(number) * time.Second))
	k := kymaOf(fmt.Sprint("runtime-", number))
	k.APIVersion, k.Kind = v1beta2.GroupVersion.String(), "Kyma"
	k.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 500),
		"kyma-pull.dev/autonomy":                           "Catalog",
	}
	k.Finalizers = []string{"operator.kyma-project.io/Kyma"}
	for _, manager := range []string{"provisioner", "kcp-publisher"} {
		k.ManagedFields = append(k.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:modules":"` + strings.Repeat("f", 3000) + `"}}`),
		})
	}
	k.Status.State, k.Status.ActiveChannel = v1beta2.StateReady, "regular"
	for _, kind := range []string{"Ready", "Modules", "ModuleCatalog", "Reporting", "Accepted"} {
		k.Status.Conditions = append(k.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: "everything is as it should be",
			LastTransitionTime: at,
		})
	}
	versions := map[string]string{}
	for i := range 20 {
		name := fmt.Sprintf("module-%d-%d", number%8, i)
		k.Spec.Modules = append(k.Spec.Modules, v1beta2.Module{
			Name: name, CustomResourcePolicy: "CreateAndDelete", Managed: true,
		})
		object := func(kind string) *v1beta2.TrackingObject {
			return &v1beta2.TrackingObject{
				TypeMeta:    metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: kind},
				PartialMeta: v1beta2.PartialMeta{Name: name, Namespace: "kyma-system", Generation: 1},
			}
		}
		k.Status.Modules = append(k.Status.Modules, v1beta2.ModuleStatus{
			Name: name, FQDN: "kyma-project.io/module/" + name, OcmComponentName: "kyma-project.io/module/" + name,
			Channel: "regular", Version: "1.2.3", State: v1beta2.StateReady,
			Manifest: object("Manifest"), Resource: object("Sample"), Template: object("ModuleTemplate"),
		})
		versions[name] = "1.2.3"
	}
	k.Status.Runtime = &v1beta2.RuntimeStatus{
		ID: k.Name, Published: &v1beta2.PublishedBundle{
			Sequence: 7, Digest: fmt.Sprintf("sha256:%064d", number), Versions: versions,
		},
		Requested: &v1beta2.RequestedSpec{Spec: *k.Spec.DeepCopy(), Generation: 3},
		Observed: &v1beta2.ObservedBundle{
			Sequence: 7, Digest: fmt.Sprintf("sha256:%064d", number), Time: at, Heard: &at, AgentVersion: "v1.0.0",
			KubernetesVersion: "v1.36.3",
		},
		Key: &v1beta2.RuntimeKey{
			Thumbprint: fmt.Sprintf("%044d", number), PublicKey: fmt.Sprintf("%0124d", number),
		},
	}
	return k
}

func newReportWith20Modules(k *v1beta2.Kyma) bundle.AcceptedReport {
	r := bundle.AcceptedReport{Report: bundle.Report{
		Runtime: k.Name, Fleet: "fleet", Sequence: 7, Time: noon, AgentVersion: "v1.0.0", KubernetesVersion: "v1.36.3",
		Certificate: strings.Repeat("c", 900),
		Kyma:        &bundle.ReportedKyma{Spec: k.Spec, Generation: 3, State: v1beta2.StateReady},
	}}
	for _, m := range k.Status.Modules {
		r.Modules = append(r.Modules, bundle.ReportedModule{
			Name: m.Name, Channel: m.Channel, Version: m.Version, State: m.State, Manifest: m.Manifest,
			Resource: m.Resource,
		})
	}
	return r
}

func decoded[T any](t testing.TB, value T) T {
	t.Helper()
	text, err := json.Marshal(value)
	var made T
	if err := errors.Join(err, json.Unmarshal(text, &made)); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestCachedKymaOmitsOnlyManagedFieldsAndLastApplied(t *testing.T) {
	s := NewSlimmer()
	for number := range 20 {
		whole := newKymaWith20Modules(number)
		slim, err := s.Transform(decoded(t, whole))
		if err != nil {
			t.Fatal(err)
		}
		whole.ManagedFields = nil
		delete(whole.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
		if want := decoded(t, whole); !reflect.DeepEqual(slim, want) {
			t.Fatalf("got  %+v\nwant %+v", slim, want)
		}
		report := decoded(t, newReportWith20Modules(whole))
		s.slimReport(&report)
		want := decoded(t, newReportWith20Modules(whole))
		if want.Certificate = ""; !reflect.DeepEqual(report, want) {
			t.Fatalf("got  %+v\nwant %+v", report, want)
		}
	}
	var empty v1beta2.Kyma
	if slim, err := s.Transform(&empty); err != nil || !reflect.DeepEqual(slim, &v1beta2.Kyma{}) {
		t.Errorf("empty Kyma: got %+v and error %v, want it unchanged", slim, err)
	}
	if other, err := s.Transform("a tombstone"); err != nil || other != "a tombstone" {
		t.Errorf("object that is not a Kyma: got %v and error %v, want it unchanged", other, err)
	}
}

func TestEqualStringsAreSharedAfterGarbageCollection(t *testing.T) {
	for _, text := range []string{"a", "Ready", "a text that many objects have", strings.Repeat("x", 5000)} {
		s := NewSlimmer()
		held := s.shareText(strings.Clone(text))
		for range 3 {
			runtime.GC()
			s.dropFreed()
		}
		if again := s.shareText(strings.Clone(text)); unsafe.StringData(again) != unsafe.StringData(held) {
			t.Errorf("text of %d bytes: an equal text is not shared", len(text))
		}
		runtime.KeepAlive(held)
	}
}

func TestIndexOfSharedStringsIsLimited(t *testing.T) {
	for _, size := range []int{100, maxPartBytes - 1, maxPartBytes} {
		s, held := NewSlimmer(), []string{}
		for i := range 2 * maxPartsBytes / (memo.EntryBytes + size) {
			held = append(held, s.shareText(fmt.Sprintf("%0*d", size, i)))
		}
		if entries, bytes := s.parts.Size(); bytes > maxPartsBytes || size == maxPartBytes && entries > 0 {
			t.Errorf("%d parts of %d bytes: got %d bytes in use, want at most the limit", entries, size, bytes)
		}
		runtime.KeepAlive(held)
	}
}

func TestEqualVersionMapsShareMemory(t *testing.T) {
	s := NewSlimmer()
	first := s.shareVersions(map[string]string{"scaler": "1.7.0"})
	second := s.shareVersions(map[string]string{"scaler": "1.7.0"})
	if reflect.ValueOf(first).Pointer() != reflect.ValueOf(second).Pointer() {
		t.Error("equal maps of versions are not shared")
	}
	for i := range 10_000 {
		s.shareVersions(map[string]string{fmt.Sprint("module-", i): strings.Repeat("1", 1000)})
	}
	if _, bytes := s.versions.Size(); bytes > maxVersionsBytes {
		t.Errorf("got %d bytes in use, want at most %d", bytes, maxVersionsBytes)
	}
}

func TestFleetFitsIntoMemory(t *testing.T) {
	runtimes := 500
	if suite.Selected() {
		runtimes = 2000
	}
	live := func() uint64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	hold := func(slim bool) int {
		before, s := live(), NewSlimmer()
		kymas, all := make([]*v1beta2.Kyma, runtimes), make([]bundle.AcceptedReport, runtimes)
		for i := range kymas {
			kymas[i] = decoded(t, newKymaWith20Modules(i))
			if all[i] = decoded(t, newReportWith20Modules(kymas[i])); slim {
				if _, err := s.Transform(kymas[i]); err != nil {
					t.Fatal(err)
				}
				s.slimReport(&all[i])
			}
		}
		after := live()
		runtime.KeepAlive(kymas)
		runtime.KeepAlive(all)
		runtime.KeepAlive(s)
		return int(after-before) / runtimes
	}
	whole, slim := hold(false), hold(true)
	t.Logf("%d bytes per runtime without the Slimmer, %d bytes with the Slimmer", whole, slim)
	if most := 8 << 10; slim > most {
		t.Errorf("the caches use %d bytes per runtime, want at most %d", slim, most)
	}
}

func TestPartsOfOutdatedReportsAreFreed(t *testing.T) {
	// With a larger value, as in make test, parts of outdated reports would fill the index before they are freed, and
	// displace the parts of the Kymas.
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	s, kymas := NewSlimmer(), make([]any, 50)
	for i := range kymas {
		slim, err := s.Transform(decoded(t, newKymaWith20Modules(i)))
		if err != nil {
			t.Fatal(err)
		}
		kymas[i] = slim
	}
	s.dropFreed()
	entries, _ := s.parts.Size()
	before := heapInUse()
	for n := range 400 {
		report := bundle.AcceptedReport{}
		for i := range bundle.MaxManifests {
			report.Modules = append(report.Modules,
				bundle.ReportedModule{Name: fmt.Sprintf("%03d%03d", n, i), State: v1beta2.StateError})
		}
		s.slimReport(&report)
	}
	runtime.GC()
	s.dropFreed()
	if left, _ := s.parts.Size(); left < entries || left > entries+entries/2 {
		t.Errorf("got %d parts after 400 outdated reports, want the %d parts of the Kymas", left, entries)
	}
	if grown := heapInUse() - before; grown > 1<<20 {
		t.Errorf("400 outdated reports need %d bytes, must be at most 1 MiB", grown)
	}
	runtime.KeepAlive(kymas)
	runtime.KeepAlive(s)
}

// heapInUse returns the number of heap bytes that this process uses after a garbage collection.
func heapInUse() int {
	for range 3 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}
