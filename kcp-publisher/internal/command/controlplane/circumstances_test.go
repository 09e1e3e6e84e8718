package controlplane

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

type failingReader struct {
	client.Reader
	get, list error
}

func (r failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return r.get
}

func (r failingReader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return r.list
}

// A watch reports a missing warning as resolved, so a failed read must not remove a warning.
func TestWatchKeepsWarningAfterFailedRead(t *testing.T) {
	expires := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for name, api := range map[string]failingReader{
		"the record of the Git commit cannot be read": {get: errors.New("time-out")},
		"the Leases cannot be read":                   {list: errors.New("time-out")},
		"the record and the Leases cannot be read":    {get: errors.New("time-out"), list: errors.New("time-out")},
	} {
		around := fleet.Input{Held: "a commit is being applied", RootExpires: expires}
		err := ReadCircumstances(t.Context(), api, corev1.NamespaceDefault, &around)
		if err == nil || around.Held == "" || !around.RootExpires.Equal(expires) {
			t.Errorf("%s: got %v, held %q, root expiry %s; want an error and unchanged input", name, err,
				around.Held, around.RootExpires)
		}
	}
	around := fleet.Input{Held: "a commit is being applied", RootExpires: expires}
	if err := ReadCircumstances(t.Context(), failingReader{}, corev1.NamespaceDefault, &around); err != nil ||
		around.Held != "" || !around.RootExpires.IsZero() {
		t.Errorf("successful reads: got %v, held %q, root expiry %s; want empty input", err, around.Held,
			around.RootExpires)
	}
}
