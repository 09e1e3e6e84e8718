package controlplane

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

type catalogReader struct {
	client.Reader
	templates []v1beta2.ModuleTemplate
	metas     []v1beta2.ModuleReleaseMeta
}

func (r catalogReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *v1beta2.ModuleTemplateList:
		list.Items = r.templates
	case *v1beta2.ModuleReleaseMetaList:
		list.Items = r.metas
	}
	return nil
}

func TestOmittedCatalogObjectsAreFound(t *testing.T) {
	large := metav1.ObjectMeta{
		Namespace: "kcp-system", Name: "keda-1.0.0", Annotations: map[string]string{"padding": strings.Repeat("x", 1<<20)},
	}
	channels := make([]v1beta2.ChannelVersion, 33)
	for i := range channels {
		channels[i] = v1beta2.ChannelVersion{Channel: "c" + strings.Repeat("x", i), Version: "1.0.0"}
	}
	found, err := ReadLeftOut(t.Context(), catalogReader{
		templates: []v1beta2.ModuleTemplate{
			{ObjectMeta: large}, {ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "valid"}},
		},
		metas: []v1beta2.ModuleReleaseMeta{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kcp-system", Name: "nats"},
			Spec:       v1beta2.ModuleReleaseMetaSpec{ModuleName: "nats", Channels: channels},
		}},
	}, "kcp-system")
	if err != nil || len(found) != 2 || found[0].Object != "ModuleReleaseMeta kcp-system/nats" ||
		!strings.Contains(found[0].Reason, "33 channels") || found[1].Object != "ModuleTemplate kcp-system/keda-1.0.0" {
		t.Errorf("got %+v, %v, want the ModuleReleaseMeta and the large ModuleTemplate", found, err)
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "moduletemplates"}, "", nil)
	if found, err := ReadLeftOut(t.Context(), failingReader{list: forbidden}, "a"); err != nil || found != nil {
		t.Errorf("without permission: got %v, %v, want no objects", found, err)
	}
	if _, err := ReadLeftOut(t.Context(), failingReader{list: errors.New("time-out")}, "a"); err == nil {
		t.Error("a failed read is treated as an empty catalog")
	}
}
