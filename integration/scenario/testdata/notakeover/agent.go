// Package takeover contains stubs for the agent's package takeover. A test builds the agent with them.
package takeover

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/record"
)

type Phases struct {
	CompletedBundle string
	Removed         []bundle.ObjectRef
}

type Writer struct {
	Client, Uncached client.Client
	Records          record.Store
	Try              func(kind, name, module string, write func() error)
	HasFailures      func() bool
	Patch            func(ctx context.Context, before, after client.Object, kind string) error
	Delete           func(ctx context.Context, object client.Object, kind string) error
	Unmanage         func(ctx context.Context, m *v1beta2.Manifest) error
	Definitions      func() ([]*unstructured.Unstructured, error)
	Owner            string
	Owners           []string
}

func (*Phases) Run(context.Context, *bundle.Bundle, Writer) {}
func (Writer) Inherit(context.Context, *v1beta2.Manifest, []bundle.ObjectRef) error {
	return nil
}

type Facts struct {
	Bundle        *bundle.Bundle
	Manifests     []v1beta2.Manifest
	PhaseDone     string
	Removed       []bundle.ObjectRef
	ContentErrors map[string]error
	Trouble       *bundle.ReportedTrouble
	Unmanaged     map[string]string
	ReadRecord    func(*v1beta2.Manifest) record.Record
	Message       func(*v1beta2.Manifest) string
}

func ReleasesRuntime(*bundle.Bundle) bool                                    { return false }
func ReportProgress(Facts) *bundle.ReportedTakeover                          { return nil }
func ReleasedModules(Facts, []bundle.ReportedModule) []bundle.ReportedModule { return nil }
func RemoveConditions(*v1beta2.KymaStatus, *bundle.Bundle)                   {}

func ManagedFieldsAfterTakeover([]metav1.ManagedFieldsEntry, string) ([]metav1.ManagedFieldsEntry, error) {
	return nil, nil
}
func ReturnFields(*unstructured.Unstructured, string) error  { return nil }
func ReleaseDefaultCR() []byte                               { return []byte("{}") }
func HasCreatedDefaultCR(*metav1.PartialObjectMetadata) bool { return false }
func TakeFields(context.Context, client.Client, *unstructured.Unstructured, string) error {
	return nil
}
func KymasAnnotation(bundle.Predicate) string                           { return "" }
func OwnerAnnotations(string, string, ...string) []string               { return nil }
func HasInstalled(*metav1.PartialObjectMetadata, string, []string) bool { return false }
