package object

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Text returns the text at a path in an object, or "" if the path does not exist or has a different type.
func Text(o *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(o.Object, path...)
	return text
}

// Integer returns the number at a path in an object, or fallback if the path does not exist or has a different type.
func Integer(o *unstructured.Unstructured, fallback int64, path ...string) int64 {
	if n, found, err := unstructured.NestedInt64(o.Object, path...); found && err == nil {
		return n
	}
	return fallback
}
