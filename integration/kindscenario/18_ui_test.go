package kindscenario

import (
	"strings"
	"testing"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/hack/suite"
	"github.com/kyma-pull/kyma-pull/integration/fleet"
	"github.com/kyma-pull/kyma-pull/integration/sample"
)

// unlistedImage is an image that the module's content uses and its component does not list.
const unlistedImage = "registry.example/unlisted/report:3.1.4"

// The UI runs as the guide installs it. It renders modules itself, so its page Images also contains images that
// components do not list.
func TestUIInAClusterShowsUnlistedImages(t *testing.T) {
	suite.Long(t) // the short suite tests the page and the chart's templates separately
	startScenario(t)
	ctx, r := t.Context(), stage.berlin
	untilPromoted(t, r)
	module := sample.Version{Module: "unlisted", Version: "1.0.0", Manifest: `apiVersion: batch/v1
kind: CronJob
metadata: {name: unlisted, namespace: kyma-system}
spec:
  schedule: "0 0 1 1 *"
  suspend: true
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: report, image: "` + unlistedImage +
		`"}]}}}}
`}
	must(t, stage.fleet.Offer(ctx, module))
	must(t, stage.fleet.Release(ctx, "unlisted", module.Component(), sample.Channel("regular", "1.0.0")))
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) {
		spec.Modules = append(spec.Modules, v1beta2.Module{Name: "unlisted", Managed: true})
	}))
	must(t, r.UntilState(ctx, "unlisted", "1.0.0", v1beta2.StateReady))

	ui, err := stage.kind.UI(ctx, stage.fleet)
	stage.undo = append(stage.undo, stage.kind.RemoveUI)
	must(t, err)
	kubectl := func(args ...string) string {
		output, err := stage.kind.Kubectl(ctx, fleet.ControlPlane, append([]string{"-n", sample.Namespace}, args...)...)
		must(t, err)
		return strings.TrimSpace(output)
	}
	kubectl("create", "serviceaccount", "viewer")
	kubectl("create", "rolebinding", "see-the-fleet", "--role", "kcp-publisher-ui-viewer", "--serviceaccount",
		sample.Namespace+":viewer")
	token := kubectl("create", "token", "viewer", "--duration", "1h")
	until(t, "the page lists the image", func() (bool, string) {
		page, err := stage.kind.ReadUI(ctx, token, "/images?image=unlisted/report")
		if err != nil {
			return false, err.Error()
		}
		page = strings.ReplaceAll(page, "<wbr>", "") // the page allows line breaks in long images
		return strings.Contains(page, unlistedImage) && !strings.Contains(page, "ncomplete"), page
	})
	found, err := stage.kind.Memory(ctx, ui)
	must(t, err)
	for _, m := range found {
		t.Logf("UI: working set %d MiB, peak %d MiB, limit %d MiB", m.WorkingSet>>20, m.Peak>>20, m.Limit>>20)
	}
	if len(found) != 1 {
		t.Errorf("found %d containers of the UI, want 1", len(found))
	}
	must(t, r.EditKyma(ctx, func(spec *v1beta2.KymaSpec) { spec.Modules = spec.Modules[:len(spec.Modules)-1] }))
	must(t, r.UntilGone(ctx, "unlisted"))
	kubectl("delete", "rolebinding/see-the-fleet", "serviceaccount/viewer")
}
