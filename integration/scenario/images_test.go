package scenario

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
)

func TestFleetImagesAreListedAndCompared(t *testing.T) {
	suite.Long(t) // the short suite runs the tests in core/inventory and command/images
	ctx := t.Context()
	f := newFleet(t, fleet.Options{})
	start := time.Now()
	r := runtimeWith(t, f, "one", map[string]string{"scaler": "1.7.0"})
	deleted, err := f.Simulate(ctx, fleet.NewKyma("deleted", "regular", "scaler"))
	must(t, err)
	untilSettled(t, deleted, "1.7.0")
	kyma, err := deleted.Record(ctx)
	must(t, err)
	must(t, f.Control.Delete(ctx, kyma))
	until(t, time.Minute, "the Kyma is deleted", func() (bool, string) {
		_, err := deleted.Record(ctx)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	middle := time.Now()
	promote(t, f, "1.8.0")
	must(t, r.UntilState(ctx, "scaler", "1.8.0", v1beta2.StateReady))
	images := func(args ...string) string {
		t.Helper()
		return ask(t, f, append([]string{
			"images", "--from", f.Location(), "--trust", filepath.Join(f.Keys(), "root.json"),
		}, args...)...)
	}
	if text := images(); !strings.Contains(text, "1.8.0") || strings.Contains(text, "1.7.0") {
		t.Errorf("unexpected images of the reported versions:\n%s", text)
	}
	since := func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }
	text := images("--since", since(middle))
	var added, removed bool
	for _, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		added = added ||
			strings.HasPrefix(line, "+") && strings.Contains(line, "1.8.0") && fields[len(fields)-1] == "one"
		removed = removed ||
			strings.HasPrefix(line, "-") && strings.Contains(line, "1.7.0") && fields[len(fields)-1] == "one"
	}
	if !added || !removed || strings.Contains(text, "incomplete") ||
		!strings.Contains(text, "not compared: 1 runtime without a Kyma: deleted") {
		t.Errorf("unexpected image changes since the promotion:\n%s", text)
	}
	if text := images("--since", since(start.Add(-time.Hour)), "--until", since(middle)); strings.Contains(text,
		"1.8.0") ||
		!strings.Contains(text, "+") {
		t.Errorf("unexpected image changes before the promotion:\n%s", text)
	}
}
