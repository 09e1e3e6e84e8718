package ui

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/actions"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

func (s *served) post(t *testing.T, path, form string) (int, string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(t, request)
}

func selectionIn(t *testing.T, s *served, path, action string) string {
	t.Helper()
	_, body, _ := s.post(t, path, "action="+action)
	_, rest, found := strings.Cut(body, `name="selection" value="`)
	selection, _, _ := strings.Cut(rest, `"`)
	if !found || selection == "" {
		t.Fatalf("the confirmation of %s contains no selection:\n%s", path, body)
	}
	return selection
}

// confirm confirms an action on a page. more contains further form fields, each after an ampersand.
func (s *served) confirm(t *testing.T, path, action, more string) (int, string, http.Header) {
	t.Helper()
	return s.post(t, path, "action="+action+"&confirmed=yes&selection="+selectionIn(t, s, path, action)+more)
}

func TestRuntimeActionNeedsConfirmation(t *testing.T) {
	s := serve(t, sampleFleet(5, true), nil)
	status, body, _ := s.post(t, "/runtimes/r-00001", "action=suspend")
	if status != http.StatusOK || !strings.Contains(body, "Suspend runtime r-00001?") ||
		!strings.Contains(body, `name="reason"`) ||
		len(s.acted) != 0 {
		t.Fatalf("confirmation: got status %d, %d changes\n%s", status, len(s.acted), body)
	}
	status, _, header := s.confirm(t, "/runtimes/r-00001", "suspend", "&reason=rack+moves")
	if status != http.StatusSeeOther || header.Get("Location") != "/runtimes/r-00001?done=suspend" ||
		len(s.acted) != 1 {
		t.Fatalf("action: got status %d, location %q, %d changes", status, header.Get("Location"), len(s.acted))
	}
	if kyma := <-s.acted; kyma.Labels[v1beta2.LabelSkipReconciliation] != v1beta2.True ||
		kyma.Annotations[v1beta2.AnnotationSuspendReason] != "rack moves" {
		t.Errorf("got labels %v and annotations %v", kyma.Labels, kyma.Annotations)
	}
	if _, body, _ := s.get(t, "/runtimes/r-00001?done=suspend"); !strings.Contains(body,
		"Suspended: no new bundles are published.") {
		t.Errorf("the page after the action has no message:\n%s", body)
	}
	if status, body, _ := s.post(t, "/runtimes/nowhere",
		"action=suspend&confirmed=yes"); status != http.StatusNotFound {
		t.Errorf("unknown runtime: got status %d\n%s", status, body)
	}
	if status, body, _ := s.post(t, "/runtimes/r-00001",
		"action=delete&confirmed=yes"); status != http.StatusBadRequest ||
		len(s.acted) != 0 {
		t.Errorf("unknown action: got status %d\n%s", status, body)
	}
}

func TestBulkActionShowsTheNumberOfRuntimes(t *testing.T) {
	s := serve(t, sampleFleet(100, true), nil)
	status, body, _ := s.post(t, "/runtimes?q=r-0000", "action=reconcile")
	if status != http.StatusOK || !strings.Contains(body, "Reconcile 10 runtimes?") ||
		!strings.Contains(body, `href="/runtimes/r-00004"`) {
		t.Fatalf("confirmation: got status %d\n%s", status, body)
	}
	others := selectionIn(t, s, "/runtimes?q=r-0001", "reconcile") // 10 other runtimes
	if status, body, _ := s.post(t, "/runtimes?q=r-0000",
		"action=reconcile&confirmed=yes&selection="+others); status != http.StatusConflict ||
		!strings.Contains(body, "The selection changed and now has 10 runtimes.") ||
		len(s.acted) != 0 {
		t.Fatalf("changed selection: got status %d, %d changes\n%s", status, len(s.acted), body)
	}
	status, _, header := s.confirm(t, "/runtimes?q=r-0000", "reconcile", "")
	if status != http.StatusSeeOther || header.Get("Location") != "/?done=reconcile&q=r-0000" || len(s.acted) != 10 {
		t.Errorf("action: got status %d, location %q, %d changes", status, header.Get("Location"), len(s.acted))
	}
	if status, _, _ := s.post(t, "/runtimes?q=nothing-like-it",
		"action=reconcile&confirmed=yes"); status != http.StatusConflict {
		t.Errorf("empty selection: got status %d", status)
	}
}

func TestActionsApplyOnlyToRuntimesThatNeedThem(t *testing.T) {
	s := serve(t, sampleFleet(100, false), nil)
	for path, want := range map[string]string{
		"/":                  "Reconcile 99, Suspend 99, Resume 1",
		"/?health=Failing":   "Reconcile 4, Suspend 4",
		"/?health=Suspended": "Resume 1",
	} {
		_, body, _ := s.get(t, path)
		var got []string
		for _, button := range regexp.MustCompile(`name="action" value="\w+">([^<]+)<`).FindAllStringSubmatch(body, -1) {
			got = append(got, button[1])
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: got buttons %q, want %s", path, got, want)
		}
	}
	if status, body, _ := s.post(t, "/runtimes", "action=resume"); status != http.StatusOK ||
		!strings.Contains(body, "Resume runtime r-") {
		t.Errorf("a mixed selection: got status %d\n%s", status, body)
	}
	for path, want := range map[string]string{
		"/runtimes?health=Failing": "None of the selected runtimes is suspended.", "/runtimes/r-00001": "None of the",
	} {
		if status, body, _ := s.post(t, path, "action=resume&confirmed=yes"); status != http.StatusConflict ||
			!strings.Contains(body, want) || len(s.acted) != 0 {
			t.Errorf("%s: got status %d and %d changes\n%s", path, status, len(s.acted), body)
		}
	}
}

func TestActionContinuesAfterAFailedRuntime(t *testing.T) {
	s := serve(t, sampleFleet(100, true), nil)
	status, body, _ := s.confirm(t, "/runtimes?q=r-0000", "suspend", "")
	if status != http.StatusConflict || len(s.acted) != 9 || !strings.Contains(body, "9 of 10 runtimes done") ||
		!strings.Contains(body, `href="/runtimes/r-00003"`) ||
		!strings.Contains(body, "is being deleted") {
		t.Errorf("got status %d, %d changes\n%s", status, len(s.acted), body)
	}
}

func TestPageChangesALimitedNumberOfRuntimes(t *testing.T) {
	s := serve(t, sampleFleet(maxSelected+1, true), nil)
	want := fmt.Sprintf("The filter selects %d runtimes, and this page changes at most %d at once.", maxSelected+1,
		maxSelected)
	if status, body, _ := s.post(t, "/runtimes", "action=reconcile"); status != http.StatusConflict ||
		!strings.Contains(body, want) {
		t.Errorf("got status %d, want %d with the limit\n%s", status, http.StatusConflict, body)
	}
}

func TestViewerCannotChangeRuntimes(t *testing.T) {
	yes := func(context.Context, string) (bool, error) { return true, nil }
	for name, viewer := range map[string]*Viewer{
		"viewer without permission": {
			MaySee: yes, MayAct: func(context.Context, client.ObjectKey) (bool, error) { return false, nil },
			Act: func(context.Context, client.ObjectKey, actions.Runtime) (actions.Result, error) {
				t.Error("a viewer without permission changes a runtime")
				return actions.Result{}, nil
			},
		},
		"viewer without a client": {MaySee: yes},
	} {
		s := serve(t, sampleFleet(5, true), viewer)
		for _, path := range []string{"/runtimes/r-00001", "/runtimes?q=r-"} {
			if status, body, _ := s.post(t, path,
				"action=suspend&confirmed=yes"); status != http.StatusForbidden {
				t.Errorf("%s at %s: got status %d\n%s", name, path, status, body)
			}
		}
		for _, path := range []string{"/", "/runtimes/r-00001"} {
			if _, body, _ := s.get(t, path); strings.Contains(body, `value="suspend"`) {
				t.Errorf("%s: page %s offers to suspend", name, path)
			}
		}
	}
}

func TestRuntimePageShowsTheOwningKyma(t *testing.T) {
	berlin := func(kyma string, health fleet.Health) fleet.Runtime {
		r := sampleRuntime(0, true)
		r.ID, r.Kyma, r.Health = "berlin", kyma, health
		return r
	}
	f := sampleFleet(2, true)
	f.Runtimes = append([]fleet.Runtime{
		berlin("aaa", fleet.Failing), berlin("berlin", fleet.Healthy), berlin("zzz", fleet.Failing),
	}, f.Runtimes...)
	s := serve(t, f, nil)
	enrolled := map[string]bool{"berlin": true}
	s.source.kymas = func(context.Context) (all []v1beta2.Kyma, err error) {
		for _, r := range f.Runtimes {
			kyma := v1beta2.Kyma{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Kyma,
				Labels: map[string]string{v1beta2.LabelRuntimeID: r.ID}}}
			if enrolled[r.Kyma] {
				kyma.Status.Runtime = &v1beta2.RuntimeStatus{ID: r.ID, Key: &v1beta2.RuntimeKey{Thumbprint: r.Kyma}}
			}
			all = append(all, kyma)
		}
		return all, nil
	}
	for path, kyma := range map[string]string{
		"/runtimes/berlin": "berlin", "/runtimes/berlin?kyma=aaa": "aaa", "/runtimes/berlin?kyma=zzz": "zzz",
	} {
		status, body, _ := s.get(t, path)
		if status != http.StatusOK || !strings.Contains(body, "<dt>Kyma</dt><dd>kcp-system/"+kyma+"</dd>") {
			t.Errorf("%s: got status %d, want Kyma %s\n%s", path, status, kyma, body)
		}
		for _, other := range []string{"aaa", "berlin", "zzz"} {
			if linked := strings.Contains(body, `<a href="/runtimes/berlin?kyma=`+other+`">`); linked == (other == kyma) {
				t.Errorf("%s: the page links Kyma %s: %v", path, other, linked)
			}
		}
		if _, body, _ := s.post(t, path, "action=suspend"); !strings.Contains(body,
			"Suspend runtime berlin (Kyma "+kyma+")?") {
			t.Errorf("%s: the confirmation does not name Kyma %s\n%s", path, kyma, body)
		}
		status, _, header := s.confirm(t, path, "suspend", "")
		if want := "/runtimes/berlin?done=suspend&kyma=" + kyma; status != http.StatusSeeOther ||
			header.Get("Location") != want {
			t.Errorf("%s: got status %d and location %q, want %q", path, status, header.Get("Location"), want)
		} else if acted := <-s.acted; acted.Name != kyma {
			t.Errorf("%s: the action changed Kyma %s, want %s", path, acted.Name, kyma)
		}
	}
	_, body, _ := s.get(t, "/")
	for _, link := range []string{
		`href="/runtimes/berlin?kyma=aaa"`, `href="/runtimes/berlin?kyma=berlin"`, `href="/runtimes/berlin?kyma=zzz"`,
		`href="/runtimes/r-00000"`,
	} {
		if !strings.Contains(body, link) {
			t.Errorf("the overview has no link %s", link)
		}
	}
	if status, _, _ := s.get(t, "/runtimes/berlin?kyma=kyma-00001"); status != http.StatusNotFound {
		t.Errorf("a Kyma with another runtime ID: got status %d", status)
	}
	enrolled["zzz"] = true // two Kymas with keys, so the runtime has no owner
	if _, body, _ := s.get(t, "/runtimes/berlin"); !strings.Contains(body, "<dd>kcp-system/aaa</dd>") {
		t.Errorf("without an owner, the page does not show the first Kyma\n%s", body)
	}
}
