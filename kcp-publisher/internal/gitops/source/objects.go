package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/course"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/schema/crdschema"
)

const maxFileBytes = 4 << 20

// addFile adds a file's objects. shown is the file's name in messages. seen contains the file and line of each object
// that was already added, by kind, namespace and name.
func (o *Objects) addFile(files fs.FS, name, shown string, seen map[string]string) error {
	info, err := fs.Stat(files, name)
	if err != nil {
		return err
	}
	if info.Size() > maxFileBytes {
		return fmt.Errorf("%s is %d bytes, must be at most %d bytes", shown, info.Size(), maxFileBytes)
	}
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	documents, err := strict.ParseYAML(data, strict.Limits{})
	if err != nil {
		return fmt.Errorf("%s: %w", shown, err)
	}
	var problems []error
	for _, document := range documents {
		written := Written{Place: fmt.Sprintf("%s:%d", shown, document.Line), File: name, Line: document.Line}
		for _, problem := range o.add(document, written, seen) {
			problems = append(problems, fmt.Errorf("%s: %w", problemPlace(problem, document, shown), problem))
		}
	}
	return errors.Join(problems...)
}

// problemPlace returns the file, line and column of a problem's field, or the object's first line.
func problemPlace(problem error, document *yaml.Node, shown string) string {
	var of *crdschema.Problem
	if !errors.As(problem, &of) {
		return fmt.Sprintf("%s:%d", shown, document.Line)
	}
	at := findField(document, of.Field)
	return fmt.Sprintf("%s:%d:%d", shown, at.Line, at.Column)
}

// checkKind returns an error for a kustomization, and for an object whose API version is not supported.
func checkKind(apiVersion, kind, file string) error {
	switch {
	case apiVersion == v1beta2.GroupVersion.String(), apiVersion == "v1" && kind == "Secret",
		apiVersion == fleet.GroupVersion.String() && (kind == "RolloutPolicy" || kind == "PromotionPolicy"):
		return nil
	case isKustomization(file, apiVersion):
		return errors.New("is a kustomization, and kustomizations are not built: remove it from the folder, or use the " +
			"output of kustomize build")
	}
	return fmt.Errorf("unknown apiVersion %q of kind %q, must be %s", apiVersion, kind, v1beta2.GroupVersion)
}

// isKustomization reports whether a document is a kustomization, which can lack apiVersion.
func isKustomization(file, apiVersion string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	base := path.Base(file)
	return group == "kustomize.config.k8s.io" ||
		apiVersion == "" && strings.TrimSuffix(base, path.Ext(base)) == "kustomization"
}

func (o *Objects) add(document *yaml.Node, written Written, seen map[string]string) []error {
	var tree any
	if err := document.Decode(&tree); err != nil {
		return []error{err}
	}
	data, err := json.Marshal(withoutNulls(tree))
	if err != nil {
		return []error{err}
	}
	var kind struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return []error{errors.New("not a Kubernetes object: apiVersion, kind and metadata are required")}
	}
	if err := checkKind(kind.APIVersion, kind.Kind, written.File); err != nil {
		return []error{err}
	}
	object := kind.Kind + " " + strings.TrimPrefix(kind.Metadata.Namespace+"/"+kind.Metadata.Name, "/")
	if first, ok := seen[object]; ok && kind.Metadata.Name != "" {
		return []error{fmt.Errorf("%s is already defined in %s", object, first)}
	}
	seen[object] = written.Place
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &written.Object.Object); err != nil {
		return []error{err}
	}
	o.Written = append(o.Written, written)
	switch kind.Kind {
	case "Kyma":
		return decodeInto(written, &o.Kymas)
	case "ModuleTemplate":
		return decodeInto(written, &o.Templates)
	case "ModuleReleaseMeta":
		return decodeInto(written, &o.Metas)
	case "Watcher":
		return decodeInto(written, &o.Watchers)
	case "RolloutPolicy":
		if problems := decodeInto(written, &o.Policies); len(problems) > 0 {
			return problems
		}
		return courseProblems(o.Policies[len(o.Policies)-1])
	case "PromotionPolicy":
		return decodeInto(written, &o.Trains)
	case "Secret":
		return o.addSecret(data)
	}
	const wanted = "Kyma, ModuleTemplate, ModuleReleaseMeta, Watcher, RolloutPolicy, PromotionPolicy or Secret"
	return []error{fmt.Errorf("unknown kind %q, must be %s", kind.Kind, wanted)}
}

// withoutNulls removes fields without a value, which the API server would reject.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		maps.DeleteFunc(value, func(_ string, field any) bool { return withoutNulls(field) == nil })
	case []any:
		for i := range value {
			value[i] = withoutNulls(value[i])
		}
	}
	return value
}

// decodeInto adds an object with the API server's defaults. It returns an error for objects that the API server would
// reject.
func decodeInto[T any](written Written, into *[]T) []error {
	schema, err := crdschema.SchemaOf(written.Object.GetKind())
	if err != nil {
		return []error{err}
	}
	object := written.Object.DeepCopy().Object
	schema.Default(object)
	data, err := json.Marshal(object)
	if err != nil {
		return []error{err}
	}
	var decoded T
	unknown, err := kjson.UnmarshalStrict(data, &decoded)
	problems := fieldProblems(unknown)
	for _, p := range append(crdschema.ValidateMeta(object), schema.Validate(object)...) {
		problems = append(problems, p)
	}
	if err != nil && len(problems) == 0 {
		problems = append(problems, err)
	}
	if len(problems) == 0 {
		*into = append(*into, decoded)
	}
	return problems
}

// courseProblems returns the reason why the publisher's webhook would reject the RolloutPolicy. The result contains
// at most one error.
func courseProblems(policy fleet.RolloutPolicy) []error {
	if err := course.Validate(policy.Spec.Course); err != nil {
		return []error{&crdschema.Problem{Field: err.Field, Message: err.Detail}}
	}
	return nil
}

func fieldProblems(found []error) (problems []error) {
	for _, problem := range found {
		var of kjson.FieldError
		if errors.As(problem, &of) && of.FieldPath() != "" {
			problem = &crdschema.Problem{Field: of.FieldPath(), Message: "unknown field"}
		}
		problems = append(problems, problem)
	}
	return problems
}

// addSecret adds a Secret with public keys. It returns errors for all other Secrets.
func (o *Objects) addSecret(data []byte) []error {
	var secret corev1.Secret
	unknown, err := kjson.UnmarshalStrict(data, &secret)
	if problems := fieldProblems(unknown); err != nil || len(problems) > 0 {
		return append(problems, err)
	}
	switch {
	case secret.Name == "":
		return []error{&crdschema.Problem{Field: "metadata.name", Message: "is required"}}
	case secret.Labels[v1beta2.LabelSignature] == "":
		return []error{&crdschema.Problem{Field: "metadata.labels", Message: fmt.Sprintf(
			"only Secrets with public keys, labeled %s with the name of a signature, are allowed: remove the Secret",
			v1beta2.LabelSignature)}}
	}
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value) // the API server merges stringData into data
	}
	o.Secrets = append(o.Secrets, secret)
	return nil
}
