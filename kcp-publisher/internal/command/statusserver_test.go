package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/fleet"
)

// kymaServer is an API server that has nothing but Kymas, and serves them in pages, as a table and one by one.
type kymaServer struct {
	kymas []v1beta2.Kyma
	items []json.RawMessage
	// columns are those of its definition of Kymas.
	columns []string
	// fieldless servers do not know the fields of Kymas, and those of which a table expires give its first page.
	fieldless, expires bool
	// undefined servers know no Kymas.
	undefined bool

	mu sync.Mutex
	// whole are the requests for Kymas in full, with what they select by.
	whole []string
}

// manyKymas returns Kymas as a publisher leaves them, some of them changed.
func manyKymas(tb testing.TB, n int, changes ...func(i int, kyma *v1beta2.Kyma)) *kymaServer {
	tb.Helper()
	s := &kymaServer{kymas: make([]v1beta2.Kyma, n), items: make([]json.RawMessage, n),
		columns: []string{"Name", "State", "Agent", "Runtime", "Healthy Until", "Skip Reconciliation", "Deleted"}}
	for i := range s.items {
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
		until := metav1.NewTime(fleet.HealthyUntil(&kyma, time.Now()))
		kyma.Status.Runtime.HealthyUntil = &until
		for _, change := range changes {
			change(i, &kyma)
		}
		data, err := json.Marshal(kyma)
		if err != nil {
			tb.Fatal(err)
		}
		s.kymas[i], s.items[i] = kyma, data
	}
	return s
}

// connect returns clients of the server.
func (s *kymaServer) connect(tb testing.TB) (client.Client, rest.Interface) {
	tb.Helper()
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	scheme, err := newScheme()
	if err != nil {
		tb.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	config := &rest.Config{Host: server.URL, QPS: -1}
	api, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		tb.Fatal(err)
	}
	table, err := newTableClient(config)
	if err != nil {
		tb.Fatal(err)
	}
	return api, table
}

func (s *kymaServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	lists := map[string]string{"rollouts": "RolloutList", "modulereleasemetas": "ModuleReleaseMetaList"}
	group, plural, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/apis/"), "/namespaces/"+defaultNamespace+"/")
	name, one := strings.CutPrefix(plural, "kymas/")
	switch {
	case s.undefined:
		http.NotFound(w, r)
	case plural == "kymas" && strings.Contains(r.Header.Get("Accept"), "as=Table"):
		s.serveTable(w, r)
	case plural == "kymas":
		s.serveList(w, r)
	case one:
		s.note(name)
		at := slices.IndexFunc(s.kymas, func(k v1beta2.Kyma) bool { return k.Name == name })
		if at < 0 {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(s.items[at])
	case lists[plural] == "":
		http.NotFound(w, r)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": group, "kind": lists[plural], "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
	}
}

func (s *kymaServer) note(asked string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = append(s.whole, asked)
}

// serveList serves a page of the Kymas, or all of those that are not Ready.
func (s *kymaServer) serveList(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	s.note("list " + r.URL.Query().Get("fieldSelector"))
	items := s.items
	if s.fieldless && r.URL.Query().Has("fieldSelector") {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusBadRequest,
			Reason: metav1.StatusReasonBadRequest, Message: `field label not supported: status.state`})
		return
	}
	if r.URL.Query().Get("fieldSelector") == "status.state!=Ready" {
		items = nil
		for i := range s.kymas {
			if s.kymas[i].Status.State != v1beta2.StateReady {
				items = append(items, s.items[i])
			}
		}
	}
	end, next := len(items), ""
	if limit > 0 && from+limit < len(items) {
		end = from + limit
		next = strconv.Itoa(end)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": v1beta2.GroupVersion.String(), "kind": "KymaList", "metadata": map[string]any{"continue": next, "resourceVersion": "1"}, "items": items[from:end]})
}

// serveTable serves a page of the Kymas as the API server prints them.
func (s *kymaServer) serveTable(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if s.expires && from > 0 {
		w.WriteHeader(http.StatusGone)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusGone,
			Reason: metav1.StatusReasonExpired, Message: "the provided continue parameter is too old"})
		return
	}
	table := s.table(from, min(from+limit, len(s.kymas)))
	if from+limit < len(s.kymas) {
		table.Continue = strconv.Itoa(from + limit)
	}
	_ = json.NewEncoder(w).Encode(table)
}

func (s *kymaServer) table(from, end int) metav1.Table {
	table := metav1.Table{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}}
	for _, name := range s.columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for i := from; i < end; i++ {
		k := &s.kymas[i]
		all := map[string]any{"Name": k.Name, "State": string(k.Status.State), "Agent": "1.0.0", "Runtime": k.Status.Runtime.ID, "Healthy Until": nil, "Skip Reconciliation": nil, "Deleted": nil}
		if until := k.Status.Runtime.HealthyUntil; until != nil {
			all["Healthy Until"] = until.UTC().Format(time.RFC3339)
		}
		if label, is := k.Labels[v1beta2.LabelSkipReconciliation]; is {
			all["Skip Reconciliation"] = label
		}
		if k.DeletionTimestamp != nil {
			all["Deleted"] = "5m"
		}
		row := metav1.TableRow{}
		for _, name := range s.columns {
			row.Cells = append(row.Cells, all[name])
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}
