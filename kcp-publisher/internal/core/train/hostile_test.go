package train

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/rollout"
)

// The author of other modules creates ModuleTemplates with random names, labels and versions. They must not affect the
// module's train.
func TestTemplatesOfOtherModulesDoNotChangeATrain(t *testing.T) {
	random := rand.New(rand.NewPCG(44, 1))
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	want := Plan(due())[0]
	if len(want.Due) != 1 {
		t.Fatalf("got promotions %+v, want one", want.Due)
	}
	for range 5000 {
		in := due()
		for range 1 + random.IntN(4) {
			hostile := v1beta2.ModuleTemplate{Spec: v1beta2.ModuleTemplateSpec{
				ModuleName: pick("", "serverless", module+"-1", "keda.", "KEDA"),
				Version:    pick("", "1.7.0", "1.8.0", "1.9.0", "9.9.9", "1.8.0 "),
				Channel:    pick("", "dev", "fast", "regular"),
			}}
			hostile.Namespace = "kcp-system"
			hostile.Name = pick(module, "serverless", "x") + pick("-1.8.0", "-1.7.0", "-9.9.9", "", "-1.8.0-copy")
			if random.IntN(2) == 0 {
				hostile.Labels = map[string]string{v1beta2.LabelModuleName: pick("serverless", "KEDA", "keda-1.8.0")}
			}
			if random.IntN(2) == 0 {
				hostile.Annotations = map[string]string{v1beta2.AnnotationHoldPromotion: "stop"}
			}
			if random.IntN(3) == 0 {
				hostile.Spec.Descriptor.Raw = []byte(pick(`{"a":1}`, "null", `{"component":{"name":"a/keda","version":"1.8.0"}}`))
			}
			in.Templates = append(in.Templates, hostile)
		}
		random.Shuffle(len(in.Templates), func(i, j int) {
			in.Templates[i], in.Templates[j] = in.Templates[j], in.Templates[i]
		})
		if got := Plan(in)[0]; !reflect.DeepEqual(got.Due, want.Due) || !reflect.DeepEqual(got.Status, want.Status) {
			t.Fatalf("templates %+v: got %+v, want %+v", in.Templates, got.Status, want.Status)
		}
	}
}

// Even the longest messages of the largest policy must fit into its status.
func TestLargestPromotionPolicyStatusStaysWithinLimit(t *testing.T) {
	in := Input{Now: monday, Fleet: Fleet{}}
	p := policy()
	p.Spec.Modules = nil
	for n := range maxModules {
		name := fmt.Sprintf("%s-%03d", strings.Repeat("m", 50), n)
		meta := metaOf("1.8.0", "1.8.0", "1.7.0")
		meta.Name, meta.Spec.ModuleName = name, name
		in.Metas = append(in.Metas, meta)
		for _, version := range []string{"1.8.0", "1.7.0"} {
			held := template(version)
			held.Name, held.Spec.ModuleName = name+"-"+version, name
			held.Annotations = map[string]string{v1beta2.AnnotationHoldPromotion: strings.Repeat("\x01", 5000)}
			in.Templates = append(in.Templates, held)
		}
		for _, channel := range []string{"dev", "fast", "regular"} {
			in.Fleet[rollout.Track{Module: name, Channel: channel}] = Counts{Version: "1.8.0"}
		}
	}
	in.Policies = []fleet.PromotionPolicy{p}
	encoded, err := json.Marshal(Plan(in)[0].Status)
	if err != nil || len(encoded) > 1<<20 {
		t.Errorf("the status is %d bytes, %v, must be at most 1 MiB", len(encoded), err)
	}
}
