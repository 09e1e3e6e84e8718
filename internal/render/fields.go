package render

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// ErrNotInstallable means that an API server does not store a kind's objects. Such an object is only part of a request
// or response, for example a TokenReview or a Status.
var ErrNotInstallable = errors.New("the API server does not store objects of this kind: " +
	"remove the object from the content")

// neverStored lists the built-in kinds whose objects clients only send to the API server. The API server does not store
// them.
var neverStored = map[string][]string{
	"":                      {"Binding", "ComponentStatus"},
	"admission.k8s.io":      {"AdmissionReview"},
	"apiextensions.k8s.io":  {"ConversionReview"},
	"authentication.k8s.io": {"SelfSubjectReview", "TokenRequest", "TokenReview"},
	"authorization.k8s.io": {
		"LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview",
	},
	"autoscaling":        {"Scale"},
	"imagepolicy.k8s.io": {"ImageReview"},
	"policy":             {"Eviction"},
}

// CheckInstallable returns ErrNotInstallable if an API server does not store a kind's objects. It returns a different
// error for a misspelled built-in kind, and nil for all other kinds.
func CheckInstallable(gvk schema.GroupVersionKind) error {
	if kind := correctKind(gvk); kind != "" {
		return fmt.Errorf("field kind must be spelled %s", kind)
	}
	if slices.Contains(neverStored[gvk.Group], gvk.Kind) {
		return ErrNotInstallable
	}
	typed, ok := newTyped(gvk)
	if !ok {
		return nil
	}
	if _, ok := typed.(metav1.Object); !ok {
		return ErrNotInstallable
	}
	return nil
}

// newTyped returns an empty object for a built-in kind. The scheme alone would also return one for a custom resource
// with kind Status.
func newTyped(gvk schema.GroupVersionKind) (runtime.Object, bool) {
	if !scheme.Scheme.Recognizes(gvk) {
		return nil, false
	}
	typed, err := scheme.Scheme.New(gvk)
	return typed, err == nil
}

// UnknownFields returns the fields of an object that its kind does not have, such as misspelled fields. It returns nil
// for custom resources and for kinds that this version does not know.
func UnknownFields(object *unstructured.Unstructured) []string {
	typed, ok := newTyped(object.GroupVersionKind())
	if !ok {
		return nil
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true)
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return nil // the API server reports other errors
	}
	var unknown []string
	for _, one := range strict.Errors() {
		unknown = append(unknown, fmt.Sprintf("%s: %v", Name(object), one))
	}
	return unknown
}
