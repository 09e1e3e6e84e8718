package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// stateHistory records the state and the Ready condition of an API server's Kymas after each change. It is safe for
// concurrent use.
type stateHistory struct {
	mu   sync.Mutex // guards the fields below
	seen []string
}

func watchKymas(t *testing.T, kubeconfig, namespace string) *stateHistory {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, v1beta2.AddToScheme(scheme))
	api, err := client.NewWithWatch(configOf(t, kubeconfig), client.Options{Scheme: scheme})
	must(t, err)
	changes, err := api.Watch(t.Context(), &v1beta2.KymaList{}, client.InNamespace(namespace))
	must(t, err)
	s := &stateHistory{}
	go func() {
		for e := range changes.ResultChan() {
			if kyma, is := e.Object.(*v1beta2.Kyma); is {
				s.mu.Lock()
				s.seen = append(s.seen,
					fmt.Sprintf("%s, Ready %t", kyma.Status.State,
						meta.IsStatusConditionTrue(kyma.Status.Conditions, v1beta2.ConditionReady)))
				s.mu.Unlock()
			}
		}
	}()
	return s
}

// different returns the recorded states and drops consecutive duplicates.
func (s *stateHistory) different() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Clone(s.seen))
}

func configOf(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	return config
}

// table returns kubectl's columns for a kind's objects.
func table(t *testing.T, kubeconfig, path string) []map[string]string {
	t.Helper()
	config := configOf(t, kubeconfig)
	http1, err := rest.HTTPClientFor(config)
	must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	must(t, err)
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := http1.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	var answer metav1.Table
	must(t, json.Unmarshal(body, &answer))
	var rows []map[string]string
	for _, row := range answer.Rows {
		cells := map[string]string{}
		for i, c := range answer.ColumnDefinitions {
			if row.Cells[i] != nil {
				cells[c.Name] = fmt.Sprint(row.Cells[i])
			}
		}
		rows = append(rows, cells)
	}
	if len(rows) == 0 {
		t.Fatalf("%s: %s", path, body)
	}
	return rows
}

// kstatusOf returns the object status that tools compute with kstatus.
func kstatusOf(t *testing.T, object client.Object) status.Status {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	must(t, err)
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion("operator.kyma-project.io/v1beta2")
	u.SetKind("Kyma")
	result, err := status.Compute(u)
	must(t, err)
	return result.Status
}

func untilRecord(
	ctx context.Context, t *testing.T, r *fleet.Runtime, what string, is func(*v1beta2.Kyma) bool,
) *v1beta2.Kyma {
	t.Helper()
	var kyma *v1beta2.Kyma
	until(t, 0, what, func() (bool, string) {
		var err error
		if kyma, err = r.Record(ctx); err != nil {
			return false, err.Error()
		}
		return is(kyma), fmt.Sprintf("%s %+v %+v", kyma.Status.State, kyma.Status.Modules, kyma.Status.Runtime)
	})
	return kyma
}

func TestUnrelatedChangeKeepsRuntimesReady(t *testing.T) {
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0", "mailer": "1.0.0"})
	ready := untilRecord(ctx, t, r, "the runtime is Ready with its newest bundle", func(k *v1beta2.Kyma) bool {
		return k.Status.State == v1beta2.StateReady &&
			meta.IsStatusConditionTrue(k.Status.Conditions, v1beta2.ConditionAccepted)
	})
	if got := kstatusOf(t, ready); got != status.CurrentStatus || ready.Status.ObservedGeneration != ready.Generation {
		t.Errorf("kstatus reports %s, observed generation %d of %d", got, ready.Status.ObservedGeneration,
			ready.Generation)
	}

	// Add a version to a channel that no runtime uses, while the agent is stopped. The status must stay Ready, even
	// after the publisher restarts.
	published := watchKymas(t, f.PublisherKubeconfig(), sample.Namespace)
	runs := watchKymas(t, r.Kubeconfig(), v1beta2.RuntimeNamespace)
	must(t, r.Agent().Stop())
	must(t, f.Offer(ctx, sample.Scaler("1.9.0")))
	must(t, f.Release(ctx, "scaler", sample.Scaler("").Component(), sample.Channel("regular", "1.7.0"),
		sample.Channel("fast", "1.9.0")))
	sequence := ready.Status.Runtime.Published.Sequence
	pending := untilRecord(ctx, t, r, "the report about the catalog's bundle is pending", func(k *v1beta2.Kyma) bool {
		accepted := meta.FindStatusCondition(k.Status.Conditions, v1beta2.ConditionAccepted)
		return k.Status.Runtime.Published.Sequence > sequence && accepted.Reason == v1beta2.ReasonPending
	})
	if pending.Status.State != v1beta2.StateReady || countSuperseded(pending) != 1 {
		t.Errorf("status before the report arrives: %s, %+v", pending.Status.State, pending.Status.Runtime.History)
	}
	must(t, f.RestartPublisher())
	must(t, r.StartAgent())
	untilSeen(t, r, "mailer-1.0.0", "scaler-1.7.0", "scaler-1.9.0")
	settled := untilRecord(ctx, t, r, "the newest bundle is reported", func(k *v1beta2.Kyma) bool {
		return k.Status.Runtime.Observed.Digest == k.Status.Runtime.Published.Digest &&
			countSuperseded(k) == 0
	})
	for where, seen := range map[string][]string{"the control plane": published.different(),
		"the runtime": runs.different()} {
		if len(seen) != 1 || seen[0] != "Ready, Ready true" {
			t.Errorf("the Kyma in %s had unexpected states %q", where, seen)
		}
	}
	checkKubectl(t, f, r, settled)

	// During a promotion, the status shows the running version until the runtime reports the new one.
	must(t, r.Agent().Stop())
	promote(t, f, "1.8.0")
	asked := untilRecord(ctx, t, r, "1.8.0 is published", func(k *v1beta2.Kyma) bool {
		return k.Status.Runtime.Published.Versions["scaler"] == "1.8.0"
	})
	for _, m := range asked.Status.Modules {
		want := map[string]string{"scaler": "1.7.0 Processing", "mailer": "1.0.0 Ready"}[m.Name]
		if got := m.Version + " " + string(m.State); got != want {
			t.Errorf("module %s has version and state %s, want %s", m.Name, got, want)
		}
	}
	if asked.Status.State != v1beta2.StateProcessing || asked.Status.ReadyModules != "1/2" ||
		kstatusOf(t, asked) != status.InProgressStatus {
		t.Errorf("got Kyma state %s, ready modules %s and kstatus %s", asked.Status.State, asked.Status.ReadyModules,
			kstatusOf(t, asked))
	}
	must(t, r.StartAgent())
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	checkEvents(t, f, r)
}

// checkKubectl checks kubectl's columns and label selectors for Kymas, ModuleReleaseMetas and Manifests.
func checkKubectl(t *testing.T, f *fleet.Fleet, r *fleet.Runtime, kyma *v1beta2.Kyma) {
	t.Helper()
	const group = "/apis/operator.kyma-project.io/v1beta2/namespaces/"
	row := table(t, f.PublisherKubeconfig(), group+sample.Namespace+"/kymas")[0]
	for column, want := range map[string]string{
		"Name": r.ID, "State": "Ready", "Channel": "regular", "Modules": "2/2",
		"In Force": fmt.Sprint(kyma.Status.Runtime.Observed.Sequence), "Reporting": "Reported",
		"Message": "all modules are ready", "Runtime": r.ID,
		"Kubernetes": kyma.Status.Runtime.Observed.KubernetesVersion,
		"Agent":      kyma.Status.Runtime.Observed.AgentVersion,
		"Published":  fmt.Sprint(kyma.Status.Runtime.Published.Sequence),
		"Running":    fmt.Sprintf("%d:mailer=1.0.0,scaler=1.7.0", kyma.Status.Runtime.Published.Sequence),
	} {
		if row[column] != want {
			t.Errorf("column %s of the Kyma is %q, want %q", column, row[column], want)
		}
	}
	reportedAt := kyma.Status.Runtime.Observed.Heard.Time
	if until, err := time.Parse(time.RFC3339, row["Healthy Until"]); err != nil || !until.After(reportedAt) ||
		row["Skip Reconciliation"] != "" || row["Deleted"] != "" {
		t.Errorf("unexpected row of a healthy Kyma: %v: %v", row, err)
	}
	left := &v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "left",
		Finalizers: []string{"example.com/keep"},
		Labels:     map[string]string{v1beta2.LabelSkipReconciliation: "true"}},
		Spec: v1beta2.KymaSpec{Channel: "regular"}}
	must(t, f.Control.Create(t.Context(), left))
	must(t, f.Control.Delete(t.Context(), left))
	if row := table(t, f.PublisherKubeconfig(), group+metav1.NamespaceDefault+
		"/kymas")[0]; row["Skip Reconciliation"] != "true" || row["Deleted"] == "" {
		t.Errorf("unexpected row of a suspended and deleted Kyma: %v", row)
	}
	must(t, f.Control.Patch(t.Context(), left,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	if row := table(t, r.Kubeconfig(), group+v1beta2.RuntimeNamespace+"/kymas")[0]; row["Modules"] != "2/2" ||
		row["Channel"] != "regular" {
		t.Errorf("unexpected row of the runtime's Kyma: %v", row)
	}
	for _, row := range table(t, f.PublisherKubeconfig(), group+sample.Namespace+"/modulereleasemetas") {
		if row["Name"] == "scaler" &&
			(!strings.Contains(row["Channels"], `{"channel":"regular","version":"1.7.0"}`) ||
				!strings.Contains(row["Channels"], `"fast"`)) {
			t.Errorf("unexpected channels of scaler: %v", row)
		}
	}
	if row := table(t, r.Kubeconfig(), group+v1beta2.RuntimeNamespace+"/manifests")[0]; row["State"] != "Ready" ||
		row["Version"] == "" {
		t.Errorf("unexpected row of a Manifest: %v", row)
	}
	for selector, want := range map[string]int{"status.state": 1, "status.activeChannel": 1, "status.runtime.id": 1} {
		value := map[string]string{"status.state": "Ready", "status.activeChannel": "regular",
			"status.runtime.id": r.ID}[selector]
		for with, n := range map[string]int{value: want, "other": 0} {
			var found v1beta2.KymaList
			must(t, f.Control.List(t.Context(), &found, client.InNamespace(sample.Namespace),
				client.MatchingFields{selector: with}))
			if len(found.Items) != n {
				t.Errorf("%s=%s selects %d Kymas, want %d", selector, with, len(found.Items), n)
			}
		}
	}
}

// checkEvents checks that each change caused exactly one Event, even though the publisher was killed.
func checkEvents(t *testing.T, f *fleet.Fleet, r *fleet.Runtime) {
	t.Helper()
	want := map[string]int{"Enrolled": 1, "Published": 2, "Failed": 0, "RuntimeSilent": 0, "RolledBack": 0}
	until(t, 0, "Events report the changes", func() (bool, string) {
		var all eventsv1.EventList
		if err := f.Control.List(t.Context(), &all, client.InNamespace(sample.Namespace)); err != nil {
			return false, err.Error()
		}
		counts, notes := map[string]int{}, []string{}
		for _, e := range all.Items {
			if e.Regarding.Kind == "Kyma" && e.Regarding.Name == r.ID {
				counts[e.Reason]++
				notes = append(notes, e.Reason+": "+e.Note)
			}
		}
		upgraded := slices.ContainsFunc(notes, func(n string) bool {
			return (strings.HasPrefix(n, "Ready: ") || strings.HasPrefix(n, "Applied: ")) &&
				strings.Contains(n, "scaler 1.7.0 → 1.8.0")
		})
		for reason, n := range want {
			if counts[reason] != n {
				return false, strings.Join(notes, "\n")
			}
		}
		return upgraded && counts["Ready"] == 2, strings.Join(notes, "\n")
	})
}

// countSuperseded returns the number of bundles in the history that the runtime may still report as applied.
func countSuperseded(k *v1beta2.Kyma) (n int) {
	for _, b := range k.Status.Runtime.History {
		if b.Superseded != nil {
			n++
		}
	}
	return n
}
