package anywhere

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestRuntimeAdminAddsAModule(t *testing.T) {
	scene(t)
	until(t, "tokyo has its Kyma", func() (bool, string) {
		kyma, err := stage.tokyo.Kyma(t.Context())
		return err == nil && len(kyma.Spec.Modules) == 0, "none yet, or with modules"
	})
	if _, err := settings(t.Context(), stage.tokyo); !apierrors.IsNotFound(err) {
		t.Fatalf("the module is there before anybody added it: %v", err)
	}
	add(t, stage.tokyo)
	untilRunning(t, stage.tokyo, promotedImage())
}
