package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/fleet"
)

// manyKymas returns an API server that has nothing but Kymas, as a publisher leaves them, and serves them in pages.
func manyKymas(tb testing.TB, n int) client.Client {
	tb.Helper()
	items := make([]json.RawMessage, n)
	for i := range items {
		heard := metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
		kyma := v1beta2.Kyma{TypeMeta: metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Kyma"}}
		kyma.Name, kyma.Namespace, kyma.ResourceVersion = fmt.Sprintf("runtime-%05d", i), defaultNamespace, strconv.Itoa(i)
		kyma.Labels = map[string]string{v1beta2.LabelRegion: "eu", v1beta2.LabelPlan: "aws", v1beta2.LabelGlobalAccountID: "account"}
		kyma.Spec.Channel = "regular"
		kyma.Status.State = v1beta2.StateReady
		versions := map[string]string{}
		for m := range 10 {
			name := fmt.Sprintf("module-%c", 'a'+m)
			versions[name] = "1.7.0"
			kyma.Spec.Modules = append(kyma.Spec.Modules, v1beta2.Module{Name: name})
			kyma.Status.Modules = append(kyma.Status.Modules, v1beta2.ModuleStatus{Name: name, FQDN: "kyma-project.io/module/" + name, Channel: "regular", Version: "1.7.0", State: v1beta2.StateReady})
		}
		for _, kind := range []string{v1beta2.ConditionReady, v1beta2.ConditionModules, v1beta2.ConditionReporting, v1beta2.ConditionAccepted} {
			kyma.Status.Conditions = append(kyma.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Ready", Message: "all modules are ready", LastTransitionTime: heard})
		}
		same := digest.FromString(kyma.Name).String()
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{ID: kyma.Name, Published: &v1beta2.PublishedBundle{Digest: same, Sequence: 12, Versions: versions},
			Observed: &v1beta2.ObservedBundle{Digest: same, Sequence: 12, Time: heard, Heard: &heard, AgentVersion: "1.0.0", KubernetesVersion: "v1.36.3"}}
		data, err := json.Marshal(kyma)
		if err != nil {
			tb.Fatal(err)
		}
		items[i] = data
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveList(w, r, items) }))
	tb.Cleanup(server.Close)
	scheme, err := newScheme()
	if err != nil {
		tb.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	api, err := client.New(&rest.Config{Host: server.URL, QPS: -1}, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		tb.Fatal(err)
	}
	return api
}

func serveList(w http.ResponseWriter, r *http.Request, items []json.RawMessage) {
	w.Header().Set("Content-Type", "application/json")
	lists := map[string]string{"rollouts": "RolloutList", "modulereleasemetas": "ModuleReleaseMetaList"}
	group, plural, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/"), "/namespaces/"+defaultNamespace+"/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/kymas"):
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		end, next := len(items), ""
		if limit > 0 && from+limit < len(items) {
			end = from + limit
			next = strconv.Itoa(end)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": v1beta2.GroupVersion.String(), "kind": "KymaList", "metadata": map[string]any{"continue": next, "resourceVersion": "1"}, "items": items[from:end]})
	case lists[plural] == "":
		http.NotFound(w, r)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": group, "kind": lists[plural], "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
	}
}

func TestStatusReadsAFleetInPages(t *testing.T) {
	const runtimes = 2*pageOf + 1
	in, err := readInput(t.Context(), manyKymas(t, runtimes), defaultNamespace, labels.Everything())
	if err != nil || len(in.Kymas) != runtimes {
		t.Fatalf("read %d Kymas, %v", len(in.Kymas), err)
	}
	in.Now = time.Now()
	if f := fleet.Look(in); f.Summary.Health[fleet.Healthy] != runtimes {
		t.Errorf("got %+v", f.Summary)
	}
}

// BenchmarkStatus is `status` of a fleet of 10,000, from the API server's first byte to the last line that is printed. The server, which has its
// answers ready, is in it.
func BenchmarkStatus(b *testing.B) {
	api := manyKymas(b, 10_000)
	flags := statusFlags{controlPlane: controlPlane{namespace: defaultNamespace}, format: "table", all: true}
	for b.Loop() {
		in, err := readInput(b.Context(), api, defaultNamespace, labels.Everything())
		if err != nil {
			b.Fatal(err)
		}
		in.Now = time.Now()
		if err := flags.print(io.Discard, fleet.Look(in)); err != nil {
			b.Fatal(err)
		}
	}
}
