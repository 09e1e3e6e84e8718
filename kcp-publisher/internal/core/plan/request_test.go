package plan

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/bundle/trust/trusttest"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/resolve"
)

const image = "registry.example/skr-agent@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func set(into func(*v1beta2.Kyma) *map[string]string, key, value string) func(*v1beta2.Kyma) {
	return func(k *v1beta2.Kyma) { *into(k) = map[string]string{key: value} }
}

func labels(k *v1beta2.Kyma) *map[string]string      { return &k.Labels }
func annotations(k *v1beta2.Kyma) *map[string]string { return &k.Annotations }

func TestKymaAnnotationsAndLabelsChangeTheResolveRequest(t *testing.T) {
	own := v1beta2.KymaSpec{Channel: "fast"}
	requested := func(k *v1beta2.Kyma) {
		k.Status.Runtime = &v1beta2.RuntimeStatus{Requested: &v1beta2.RequestedSpec{Spec: own, Generation: 3}}
	}
	for name, c := range map[string]struct {
		change  func(*v1beta2.Kyma)
		request func(*resolve.Request) // changes to the request of a Kyma without annotations and labels
		runtime func(*Runtime)
	}{
		"Kyma without annotations and labels": {func(*v1beta2.Kyma) {}, func(*resolve.Request) {}, func(*Runtime) {}},
		"autonomy": {set(annotations, v1beta2.AnnotationAutonomy, bundle.AutonomyCatalog),
			func(r *resolve.Request) { r.Settings.Autonomy = bundle.AutonomyCatalog }, func(*Runtime) {}},
		"agent image": {set(annotations, v1beta2.AnnotationAgentImage, image),
			func(r *resolve.Request) { r.Settings.Agent = image }, func(*Runtime) {}},
		"empty agent image overrides the fleet's": {set(annotations, v1beta2.AnnotationAgentImage, ""),
			func(r *resolve.Request) { r.Settings.Agent = "" }, func(*Runtime) {}},
		"catalog disabled": {
			set(annotations, v1beta2.AnnotationSyncCatalog, v1beta2.False),
			func(r *resolve.Request) { r.OmitsCatalog = true }, func(*Runtime) {},
		},
		"module copy disabled": {
			set(annotations, v1beta2.AnnotationNoModuleCopy, v1beta2.True),
			func(r *resolve.Request) { r.OmitsSeedModules, r.Requested.Modules = true, nil }, func(*Runtime) {},
		},
		"module copy and synchronization disabled": {
			func(k *v1beta2.Kyma) {
				set(annotations, v1beta2.AnnotationNoModuleCopy, v1beta2.True)(k)
				set(labels, v1beta2.LabelSync, v1beta2.False)(k)
			},
			func(r *resolve.Request) { r.OmitsSeedModules, r.OmitsCatalog = true, true }, func(*Runtime) {},
		},
		"synchronization disabled": {
			set(labels, v1beta2.LabelSync, v1beta2.False), func(r *resolve.Request) { r.OmitsCatalog = true },
			func(*Runtime) {},
		},
		"labels that are copied to the runtime": {func(k *v1beta2.Kyma) {
			k.Labels = map[string]string{v1beta2.LabelGlobalAccountID: "g", v1beta2.LabelSubaccountID: "s"}
		}, func(r *resolve.Request) { r.CopiedLabels = map[string]string{v1beta2.LabelGlobalAccountID: "g"} },
			func(*Runtime) {}},
		"pinned version": {set(annotations, v1beta2.AnnotationPinnedVersions, "keda=1.7.0"),
			func(r *resolve.Request) {
				r.Requested.Modules = []v1beta2.Module{{Name: "keda", Version: "1.7.0", Managed: true}}
				r.Seed = r.Requested
			}, func(*Runtime) {}},
		"pins of the runtime's own Kyma override the control plane's": {func(k *v1beta2.Kyma) {
			requested(k)
			set(annotations, v1beta2.AnnotationPinnedVersions, "this cannot be read")(k)
		}, func(r *resolve.Request) { r.Requested, r.Seed = own, own }, func(r *Runtime) { r.KymaGeneration = 3 }},
		"reports carried by hand with the default silence": {set(annotations, v1beta2.AnnotationCarried, v1beta2.True),
			func(*resolve.Request) {}, func(r *Runtime) { r.Validity = carriedSilence * 3 / 2 }},
		"reports carried by hand with a silence of a month": {set(annotations, v1beta2.AnnotationCarried, "720h"),
			func(*resolve.Request) {}, func(r *Runtime) { r.Validity = 1080 * time.Hour }},
		"runtime ID from the label": {
			set(labels, v1beta2.LabelRuntimeID, "r-1"), func(*resolve.Request) {}, func(r *Runtime) {
				r.ID, r.Audience.Runtime = "r-1", "r-1"
			},
		},
		"spec of the runtime's own Kyma": {requested,
			func(r *resolve.Request) { r.Requested, r.Seed = own, own }, func(r *Runtime) { r.KymaGeneration = 3 }},
		"spec of the runtime's own Kyma with module copy disabled": {func(k *v1beta2.Kyma) {
			requested(k)
			k.Annotations = map[string]string{v1beta2.AnnotationNoModuleCopy: v1beta2.True}
		}, func(r *resolve.Request) { r.Requested, r.Seed = own, own }, func(r *Runtime) { r.KymaGeneration = 3 }},
		"spec of the runtime's own Kyma with autonomy": {func(k *v1beta2.Kyma) {
			requested(k)
			set(annotations, v1beta2.AnnotationAutonomy, bundle.AutonomyCatalog)(k)
		},
			func(r *resolve.Request) { r.Requested, r.Seed, r.Settings.Autonomy = own, own, bundle.AutonomyCatalog },
			func(r *Runtime) { r.KymaGeneration, r.KymaSpec = 3, bundle.RequestDigest(own) }},
		"spec of the runtime's own Kyma with synchronization disabled": {func(k *v1beta2.Kyma) {
			requested(k)
			k.Labels = map[string]string{v1beta2.LabelSync: v1beta2.False}
		},
			func(r *resolve.Request) { r.OmitsCatalog = true }, func(r *Runtime) { r.KymaGeneration = 3 }},
		"deleted Kyma": {func(k *v1beta2.Kyma) { k.DeletionTimestamp = &metav1.Time{Time: noon} },
			func(r *resolve.Request) { r.IsDeleting = true }, func(r *Runtime) { r.IsDeleting = true }},
		"label of the control plane's own cluster": {func(k *v1beta2.Kyma) {
			k.Labels = map[string]string{v1beta2.LabelControlPlane: v1beta2.True}
		},
			func(r *resolve.Request) { r.IsControlPlane = true }, func(*Runtime) {}},
		"runtime that reports the control plane's cluster UID": {func(k *v1beta2.Kyma) {
			k.Status.Runtime = &v1beta2.RuntimeStatus{
				Observed: &v1beta2.ObservedBundle{
					ClusterUID: "kcp", Features: RecordFeatures(bundle.Report{Features: bundle.AllFeatures()}),
				},
			}
		}, func(r *resolve.Request) { r.Unsupported = []bundle.Feature{} }, func(r *Runtime) {
			r.Audience.ClusterUID = "kcp"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rules := Rules{
				Settings: bundle.Settings{Agent: strings.Replace(image, "skr-agent", "other", 1)},
				Watchers: []bundle.Watcher{{Name: "w"}},
				Source:   &bundle.Source{Commit: "c"}, KymaLabels: []string{
					v1beta2.LabelGlobalAccountID, v1beta2.LabelInstanceID,
				},
			}
			kyma := kymaOf("one")
			kyma.Spec = v1beta2.KymaSpec{Channel: "regular", Modules: []v1beta2.Module{{Name: "keda", Managed: true}}}
			c.change(kyma)
			want := resolve.Request{
				Labels: kyma.Labels, Seed: kyma.Spec, Requested: kyma.Spec, Settings: rules.Settings,
				Watchers: rules.Watchers,
			}
			c.request(&want)
			got, err := rules.Request(kyma, nil)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, request\n%+v, want\n%+v", err, got, want)
			}
			wanted := Runtime{
				ID: "one", Kyma: KymaIdentity(kyma), RecordedBundle: &RecordedBundle{}, Audience: bundle.Audience{Runtime: "one"},
				Source: rules.Source,
			}
			c.runtime(&wanted)
			wanted.Request, wanted.IsInUse = ownRequest(kyma), isInUse(kyma)
			if got := rules.Runtime(kyma, nil); !reflect.DeepEqual(got, wanted) {
				t.Errorf("got runtime\n%+v, want\n%+v", got, wanted)
			}
		})
	}
}

func TestRuntimeThatCannotRequestModulesHasNoAutonomy(t *testing.T) {
	rules := Rules{Settings: bundle.Settings{Autonomy: bundle.AutonomyCatalog}}
	for _, annotation := range []string{"", bundle.AutonomyCatalog} {
		kyma := kymaOf("one")
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{
			Requested: &v1beta2.RequestedSpec{Spec: v1beta2.KymaSpec{Channel: "fast"}, Generation: 3},
		}
		kyma.Labels = map[string]string{v1beta2.LabelSync: v1beta2.False}
		if annotation != "" {
			kyma.Annotations = map[string]string{v1beta2.AnnotationAutonomy: annotation}
		}
		request, err := rules.Request(kyma, nil)
		if err != nil || request.Settings.Autonomy != "" || rules.Runtime(kyma, nil).KymaSpec != "" {
			t.Errorf("annotation %q: got error %v and autonomy %q, want no autonomy", annotation, err,
				request.Settings.Autonomy)
		}
		delete(kyma.Labels, v1beta2.LabelSync)
		if request, err = rules.Request(kyma, nil); err != nil || request.Settings.Autonomy != bundle.AutonomyCatalog {
			t.Errorf("annotation %q without the label: got error %v and autonomy %q, want Catalog", annotation, err,
				request.Settings.Autonomy)
		}
	}
}

func TestInvalidAnnotationIsAnError(t *testing.T) {
	for annotation, value := range map[string]string{
		v1beta2.AnnotationPinnedVersions: "keda", v1beta2.AnnotationAutonomy: "Everything",
		v1beta2.AnnotationAgentImage: "latest", v1beta2.AnnotationMaintenanceWindows: "Sat",
	} {
		kyma := kymaOf("one")
		kyma.Annotations = map[string]string{annotation: value}
		if _, err := (Rules{}).Request(kyma, nil); err == nil {
			t.Errorf("annotation %s: %q is accepted", annotation, value)
		}
	}
}

func TestReportedModulesWithoutRequestAreRemoved(t *testing.T) {
	kyma := kymaOf("one")
	kyma.Spec.Modules = []v1beta2.Module{{Name: "keda"}}
	report := &bundle.AcceptedReport{Report: bundle.Report{Modules: []bundle.ReportedModule{
		{Name: "keda", Channel: "regular"}, {Name: "nats", Channel: "fast", Version: "1.2.0"}, {Name: "pinned"},
	}}}
	request, err := (Rules{}).Request(kyma, report)
	if want := []v1beta2.Module{{Name: "nats", Channel: "fast", Managed: true}}; err != nil ||
		!reflect.DeepEqual(request.RemovedModules, want) || request.RemovedVersions["nats"] != "1.2.0" {
		t.Errorf("got %v, leaving %+v, versions %v, want %+v", err, request.RemovedModules, request.RemovedVersions, want)
	}
}

func TestKymaWithChangedRuntimeIDIsRefused(t *testing.T) {
	kyma := kymaOf("one")
	RecordOwner(kyma)
	if kyma.Status.Runtime.ID != "one" {
		t.Fatalf("got runtime ID %q in the status, want one", kyma.Status.Runtime.ID)
	}
	kyma.Labels = map[string]string{v1beta2.LabelRuntimeID: "two"}
	if err := NewOwners([]v1beta2.Kyma{*kyma}).Check(kyma); err == nil ||
		!strings.Contains(err.Error(), "the Kyma owns runtime one, but label") {
		t.Errorf("Kyma with a changed runtime ID: got %v, want an error", err)
	}
	if RecordOwner(kyma); kyma.Status.Runtime.ID != "one" || ClaimedRuntimeID(kyma) != "one" {
		t.Errorf("got runtime ID %q in the status, want one", kyma.Status.Runtime.ID)
	}
	younger := kymaOf("younger")
	younger.Labels = kyma.Labels
	if err := NewOwners([]v1beta2.Kyma{*kyma, *younger}).Check(younger); err != nil {
		t.Errorf("the owner is refused because another Kyma names its runtime: %v", err)
	}
}

func TestUsedTokenCannotEnrollAnotherKeyAfterRevocation(t *testing.T) {
	secrets := trust.TokenSecrets{[]byte(strings.Repeat("s", 32))}
	key := trusttest.PublicKey(t, trusttest.NewSigner(t))
	encoded, err := trust.EncodePublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	token, err := secrets.Issue("one", noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	proof, err := token.Prove("one", key)
	if err != nil {
		t.Fatal(err)
	}
	enrollment := trust.Enrollment{PublicKey: encoded, Proof: proof, TokenExpires: token.Expires.Unix()}
	kyma := kymaOf("one")
	for _, revoked := range []string{"", "thief"} {
		kyma.Annotations = map[string]string{v1beta2.AnnotationRevokedKeys: revoked}
		for expires, want := range map[time.Time]bool{token.Expires: false, token.Expires.Add(-time.Second): true} {
			kyma.Status.Runtime = &v1beta2.RuntimeStatus{
				ID: "one", Key: &v1beta2.RuntimeKey{Thumbprint: "thief", TokenExpires: metav1.NewTime(expires)},
			}
			if err := (Rules{}).Reporter(kyma, secrets, noon).Enroll(enrollment); (err == nil) != want {
				t.Errorf("revoked key %q with a token until %s: got %v, want an enrollment: %t", revoked, expires, err, want)
			}
		}
	}
}

func TestSettingsIgnoredWithoutAControlPlaneAreListed(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1beta2.Kyma)
		want   string
	}{
		"annotation for revoked keys": {
			set(annotations, v1beta2.AnnotationRevokedKeys, "t"), "annotation " + v1beta2.AnnotationRevokedKeys,
		},
		"forced deletion label": {
			set(labels, v1beta2.LabelForceDeletion, v1beta2.True), "label " + v1beta2.LabelForceDeletion,
		},
		"gone label": {set(labels, v1beta2.LabelRuntimeGone, v1beta2.True), "label " + v1beta2.LabelRuntimeGone},
		"deletion timestamp": {
			func(k *v1beta2.Kyma) { k.DeletionTimestamp = &metav1.Time{Time: noon} }, "metadata.deletionTimestamp",
		},
		"setting that works offline": {set(annotations, v1beta2.AnnotationCarried, v1beta2.True), ""},
	} {
		kyma := readyKyma("one")
		c.change(kyma)
		known, ignored := PrepareOffline(kyma)
		if known.Status.Runtime != nil || !known.DeletionTimestamp.IsZero() || kyma.Status.Runtime == nil {
			t.Errorf("%s: got Kyma %+v, want no status and deletion timestamp", name, known)
		}
		if (len(ignored) == 1) != (c.want != "") || len(ignored) > 1 || c.want != "" &&
			!strings.HasPrefix(ignored[0], "Kyma one: "+c.want+" is ignored: ") {
			t.Errorf("%s: got ignored settings %q, want %q", name, ignored, c.want)
		}
	}
}
