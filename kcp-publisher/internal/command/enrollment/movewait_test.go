package enrollment

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
)

func TestInterruptedMoveReportsNoTimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := moveFlags{patience: time.Minute}
	err := f.waitUntil(ctx, "the publisher to take over runtime berlin", func() (bool, error) { return false, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want the interruption", err)
	}
}

func TestMoveErrorNamesTheRefusedKeyFolder(t *testing.T) {
	f := moveFlags{dir: "other-keys"}
	kyma := func(handled string, assigned int64, publish reason.Reason) *v1beta2.Kyma {
		k := &v1beta2.Kyma{}
		k.Labels = map[string]string{v1beta2.LabelRuntimeID: "berlin"}
		k.Status.LastHandledReconcileAt = handled
		k.Status.Runtime = &v1beta2.RuntimeStatus{
			Reasons:    &v1beta2.RuntimeReasons{Publish: v1beta2.Reason(publish)},
			Assignment: &v1beta2.Assignment{Decided: assigned},
		}
		return k
	}
	for name, c := range map[string]struct {
		kyma *v1beta2.Kyma
		done bool
		want string
	}{
		"the publisher has not handled the request": {kyma("before", 1, reason.DuplicateRuntimeID), false, ""},
		"the publisher assigned the runtime":        {kyma("now", 7, ""), true, ""},
		"the publisher has another problem":         {kyma("now", 1, reason.RegistryNotAnswering), false, ""},
		"the publisher refused the proof": {kyma("now", 1, reason.DuplicateRuntimeID), false,
			"did not accept the token key in folder other-keys for runtime berlin"},
	} {
		done, err := f.isAssigned(c.kyma, 7, "now")
		if done != c.done || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %t and error %v, want %t and %q", name, done, err, c.done, c.want)
		}
	}
}
