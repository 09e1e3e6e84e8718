// Package controlplanetest provides an API server that serves Kymas, for tests of commands that read a fleet.
package controlplanetest

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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/command/controlplane"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// Server is an API server that serves only Kymas: lists in pages, tables, and single Kymas.
type Server struct {
	Kymas []v1beta2.Kyma
	Items []json.RawMessage
	// Columns are the columns in the Kyma CRD.
	Columns []string
	// Fieldless is true if the CRD has no selectable fields. If Expires is true, the continue token of a table expires
	// after the first page.
	Fieldless, Expires bool
	Undefined          bool
	// Rollout and Meta can be nil.
	Rollout *v1alpha1.Rollout
	Meta    *v1beta2.ModuleReleaseMeta

	// changes serializes the requests to a server that Kubeconfig started.
	changes sync.Mutex

	mu sync.Mutex
	// CompleteReads contains the requests for complete Kymas that the server received.
	CompleteReads []string
}

// New returns a server with n healthy Kymas. New calls each change for each Kyma.
func New(tb testing.TB, n int, changes ...func(i int, kyma *v1beta2.Kyma)) *Server {
	tb.Helper()
	s := &Server{Kymas: make([]v1beta2.Kyma, n), Items: make([]json.RawMessage, n),
		Columns: []string{
			"Name", "State", "Channel", "In Force", "Published", "Agent", "Kubernetes", "Runtime", "Healthy Until",
			"Skip Reconciliation", "Deleted", "Running", "Report Time",
		}}
	for i := range s.Items {
		reportedAt := metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
		kyma := v1beta2.Kyma{TypeMeta: metav1.TypeMeta{APIVersion: v1beta2.GroupVersion.String(), Kind: "Kyma"}}
		kyma.Name, kyma.Namespace, kyma.ResourceVersion = fmt.Sprintf("runtime-%05d", i), controlplane.DefaultNamespace,
			strconv.Itoa(i)
		kyma.Labels = map[string]string{
			v1beta2.LabelRegion: "eu", v1beta2.LabelPlan: "aws", v1beta2.LabelGlobalAccountID: "account",
		}
		kyma.Spec.Channel, kyma.Status.ActiveChannel = "regular", "regular"
		kyma.Status.State = v1beta2.StateReady
		versions := map[string]string{}
		for m := range 10 {
			name := fmt.Sprintf("module-%c", 'a'+m)
			versions[name] = "1.7.0"
			kyma.Spec.Modules = append(kyma.Spec.Modules, v1beta2.Module{Name: name})
			kyma.Status.Modules = append(kyma.Status.Modules, v1beta2.ModuleStatus{
				Name: name, FQDN: "kyma-project.io/module/" + name, Channel: "regular", Version: "1.7.0",
				State: v1beta2.StateReady,
			})
		}
		for _, kind := range []string{v1beta2.ConditionReady, v1beta2.ConditionModules, v1beta2.ConditionReporting,
			v1beta2.ConditionAccepted} {
			kyma.Status.Conditions = append(kyma.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: "Ready", Message: "all modules are ready",
				LastTransitionTime: reportedAt,
			})
		}
		same := digest.FromString(kyma.Name).String()
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{ID: kyma.Name, Published: &v1beta2.PublishedBundle{
			Digest: same, Sequence: 12, Versions: versions,
		},
			Observed: &v1beta2.ObservedBundle{
				Digest: same, Sequence: 12, Time: reportedAt, Heard: &reportedAt, AgentVersion: "1.0.0",
				KubernetesVersion: "v1.36.3",
			}}
		until := metav1.NewTime(fleet.HealthyUntil(&kyma, time.Now()))
		kyma.Status.Runtime.HealthyUntil, kyma.Status.Runtime.Running = &until, fleet.RunningModules(&kyma)
		for _, change := range changes {
			change(i, &kyma)
		}
		data, err := json.Marshal(kyma)
		if err != nil {
			tb.Fatal(err)
		}
		s.Kymas[i], s.Items[i] = kyma, data
	}
	return s
}

// Connect starts the server, and returns a client and a client for tables.
func (s *Server) Connect(tb testing.TB) (client.Client, rest.Interface) {
	tb.Helper()
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	scheme, err := controlplane.NewScheme()
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
	table, err := controlplane.NewTableClient(config)
	if err != nil {
		tb.Fatal(err)
	}
	return api, table
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	lists := map[string]string{"rollouts": "RolloutList", "modulereleasemetas": "ModuleReleaseMetaList"}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/"), "/")
	group, namespace, rest := strings.Join(parts[:2], "/"), "", parts[2:]
	if rest[0] == "namespaces" {
		namespace, rest = rest[1], rest[2:]
	}
	switch plural := rest[0]; {
	case s.Undefined:
		http.NotFound(w, r)
	case plural == "kymas" && len(rest) == 2:
		s.note(rest[1])
		at := slices.IndexFunc(s.Kymas, func(k v1beta2.Kyma) bool {
			return k.Name == rest[1] && k.Namespace == namespace
		})
		if at < 0 {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(s.Items[at])
	case plural == "kymas" && strings.Contains(r.Header.Get("Accept"), "as=Table"):
		s.serveTable(w, r, namespace)
	case plural == "kymas":
		s.serveList(w, r, namespace)
	case lists[plural] == "":
		http.NotFound(w, r)
	default:
		items := []any{}
		if plural == "rollouts" && s.Rollout != nil {
			items = append(items, s.Rollout)
		}
		if plural == "modulereleasemetas" && s.Meta != nil {
			items = append(items, s.Meta)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"apiVersion": group, "kind": lists[plural], "metadata": map[string]any{"resourceVersion": "1"},
			"items": items,
		})
	}
}

func (s *Server) selected(r *http.Request, namespace string) []int {
	selector, err := fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	if err != nil {
		panic(err)
	}
	labeled, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	var selected []int
	for i := range s.Kymas {
		k := &s.Kymas[i]
		if (namespace == "" || k.Namespace == namespace) && labeled.Matches(labels.Set(k.Labels)) &&
			selector.Matches(fields.Set{"status.state": string(k.Status.State), "metadata.namespace": k.Namespace}) {
			selected = append(selected, i)
		}
	}
	return selected
}

func (s *Server) pageOf(r *http.Request, selected []int) (page []int, next string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	page = selected[from:]
	if limit > 0 && limit < len(page) {
		page, next = page[:limit], strconv.Itoa(from+limit)
	}
	return page, next
}

func (s *Server) note(asked string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.CompleteReads = append(s.CompleteReads, asked)
}

func (s *Server) serveList(w http.ResponseWriter, r *http.Request, namespace string) {
	s.note("list " + r.URL.Query().Get("fieldSelector"))
	if s.Fieldless && r.URL.Query().Has("fieldSelector") {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).
			Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status: metav1.StatusFailure, Code: http.StatusBadRequest,
				Reason: metav1.StatusReasonBadRequest, Message: `field label not supported: status.state`})
		return
	}
	page, next := s.pageOf(r, s.selected(r, namespace))
	items := []json.RawMessage{}
	for _, i := range page {
		items = append(items, s.Items[i])
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": v1beta2.GroupVersion.String(), "kind": "KymaList",
		"metadata": map[string]any{"continue": next, "resourceVersion": "1"}, "items": items,
	})
}

func (s *Server) serveTable(w http.ResponseWriter, r *http.Request, namespace string) {
	if s.Expires && r.URL.Query().Has("continue") {
		w.WriteHeader(http.StatusGone)
		_ = json.NewEncoder(w).
			Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status: metav1.StatusFailure, Code: http.StatusGone,
				Reason: metav1.StatusReasonExpired, Message: "the provided continue parameter is too old"})
		return
	}
	page, next := s.pageOf(r, s.selected(r, namespace))
	table := s.table(page, r.URL.Query().Get("includeObject") == string(metav1.IncludeMetadata))
	table.Continue = next
	_ = json.NewEncoder(w).Encode(table)
}

func (s *Server) table(page []int, metadata bool) metav1.Table {
	table := metav1.Table{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "Table"}}
	for _, name := range s.Columns {
		table.ColumnDefinitions = append(table.ColumnDefinitions,
			metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, i := range page {
		k := &s.Kymas[i]
		all := map[string]any{"Name": k.Name, "State": string(k.Status.State), "Channel": k.Status.ActiveChannel,
			"Runtime": k.Status.Runtime.ID, "Healthy Until": nil, "Skip Reconciliation": nil, "Deleted": nil,
			"Running":   k.Status.Runtime.Running,
			"Published": strconv.FormatInt(k.Status.Runtime.Published.Sequence, 10)}
		if until := k.Status.Runtime.HealthyUntil; until != nil {
			all["Healthy Until"] = until.UTC().Format(time.RFC3339)
		}
		if label, is := k.Labels[v1beta2.LabelSkipReconciliation]; is {
			all["Skip Reconciliation"] = label
		}
		if observed := k.Status.Runtime.Observed; observed != nil {
			all["Report Time"], all["In Force"] = observed.Time.UTC().Format(time.RFC3339),
				strconv.FormatInt(observed.Sequence, 10)
			all["Agent"], all["Kubernetes"] = observed.AgentVersion, observed.KubernetesVersion
		}
		if k.DeletionTimestamp != nil {
			all["Deleted"] = "5m"
		}
		row := metav1.TableRow{}
		for _, name := range s.Columns {
			row.Cells = append(row.Cells, all[name])
		}
		if metadata {
			row.Object.Object = &metav1.PartialObjectMetadata{
				ObjectMeta: metav1.ObjectMeta{Name: k.Name, Namespace: k.Namespace},
			}
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}
