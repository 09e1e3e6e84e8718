// Package source reads what a control plane offers from files: a folder of YAML, or that of a commit, goes in, Kymas,
// ModuleTemplates and ModuleReleaseMetas come out. A file that cannot be read as a whole stops everything, by name and line, because a catalog with
// a hole looks like a decision.
package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

// Objects are what a folder holds.
type Objects struct {
	Kymas     []v1beta2.Kyma
	Templates []v1beta2.ModuleTemplate
	Metas     []v1beta2.ModuleReleaseMeta
	Watchers  []v1beta2.Watcher
	Policies  []fleet.RolloutPolicy
	// Secrets are those with public keys that verify the signatures of components.
	Secrets []corev1.Secret
	// Written are all of these as they stand in the files, without any defaults.
	Written []Written
	// Components are the common transport archives below it: folders, and files that end in .tar, .tgz or .tar.gz.
	Components []string
}

// Written is an object as it stands in its file.
type Written struct {
	Object unstructured.Unstructured
	// Place is file and line.
	Place string
	// File is the path inside the source, Line where the object begins in it.
	File string
	Line int
}

const (
	maxFileBytes = 4 << 20
	archiveIndex = "artifact-index.json"
)

// Folder reads every .yaml, .yml and .json file below dir. Common transport archives are not looked into.
func Folder(dir string) (Objects, error) {
	objects, err := Files(os.DirFS(dir), dir)
	for i, name := range objects.Components {
		objects.Components[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return objects, err
}

// Files reads the same from a file system; messages call it root. Components are paths inside it.
func Files(files fs.FS, root string) (Objects, error) {
	var objects Objects
	var problems []error
	seen := map[string]string{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := fs.Stat(files, path.Join(name, archiveIndex)); err == nil {
				objects.Components = append(objects.Components, name)
				return fs.SkipDir
			}
			if name != "." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		}
		if slices.Contains([]string{".tar", ".tgz"}, path.Ext(name)) || strings.HasSuffix(name, ".tar.gz") {
			objects.Components = append(objects.Components, name)
			return nil
		}
		if isLinkedFolder(files, name, entry) {
			const message = "%s: is a symbolic link to a folder, which is not followed: put the files in its place, or move it out of the folder"
			problems = append(problems, fmt.Errorf(message, filepath.Join(root, filepath.FromSlash(name))))
			return nil
		}
		if IsObjectFile(name) {
			problems = append(problems, objects.addFile(files, name, filepath.Join(root, filepath.FromSlash(name)), seen))
		}
		return nil
	})
	if err != nil {
		return Objects{}, fmt.Errorf("read folder %s: %w", root, err)
	}
	return objects, errors.Join(problems...)
}

// isLinkedFolder reports whether a folder is not looked into that could hold objects. A mounted ConfigMap has hidden ones.
func isLinkedFolder(files fs.FS, name string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 || strings.HasPrefix(entry.Name(), ".") {
		return false
	}
	info, err := fs.Stat(files, name)
	return err == nil && info.IsDir()
}

// IsObjectFile tells by its name whether a file is read for objects.
func IsObjectFile(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

// addFile adds the objects of a file, which messages call shown. seen says where each object was found, by kind, namespace
// and name.
func (o *Objects) addFile(files fs.FS, name, shown string, seen map[string]string) error {
	info, err := fs.Stat(files, name)
	if err != nil {
		return err
	}
	if info.Size() > maxFileBytes {
		return fmt.Errorf("%s: %d bytes, at most %d", shown, info.Size(), maxFileBytes)
	}
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	documents, err := strict.Documents(data, strict.Limits{})
	if err != nil {
		return fmt.Errorf("%s: %w", shown, err)
	}
	var problems []error
	for _, document := range documents {
		written := Written{Place: fmt.Sprintf("%s:%d", shown, document.Line), File: name, Line: document.Line}
		if err := o.add(document, written, seen); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", written.Place, err))
		}
	}
	return errors.Join(problems...)
}

func (o *Objects) add(document *yaml.Node, written Written, seen map[string]string) error {
	var tree any
	if err := document.Decode(&tree); err != nil {
		return err
	}
	data, err := json.Marshal(tree)
	if err != nil {
		return err
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
		return errors.New("is not a Kubernetes object: apiVersion, kind and metadata are required")
	}
	isSecret := kind.APIVersion == "v1" && kind.Kind == "Secret"
	isPolicy := kind.APIVersion == fleet.GroupVersion.String() && kind.Kind == "RolloutPolicy"
	if kind.APIVersion != v1beta2.GroupVersion.String() && !isSecret && !isPolicy {
		return fmt.Errorf("apiVersion %q of kind %q is not known, want %s", kind.APIVersion, kind.Kind, v1beta2.GroupVersion)
	}
	object := kind.Kind + " " + strings.TrimPrefix(kind.Metadata.Namespace+"/"+kind.Metadata.Name, "/")
	if first, ok := seen[object]; ok && kind.Metadata.Name != "" {
		return fmt.Errorf("%s is there already, in %s", object, first)
	}
	seen[object] = written.Place
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &written.Object.Object); err != nil {
		return err
	}
	o.Written = append(o.Written, written)
	switch kind.Kind {
	case "Kyma":
		if data, err = json.Marshal(withDefaults(tree)); err != nil {
			return err
		}
		return decodeInto(data, &o.Kymas, checkKyma)
	case "ModuleTemplate":
		return decodeInto(data, &o.Templates, func(*v1beta2.ModuleTemplate) error { return nil })
	case "ModuleReleaseMeta":
		return decodeInto(data, &o.Metas, checkMeta)
	case "Watcher":
		return decodeInto(data, &o.Watchers, func(*v1beta2.Watcher) error { return nil })
	case "Secret":
		return decodeInto(data, &o.Secrets, checkSecret)
	case "RolloutPolicy":
		return decodeInto(data, &o.Policies, checkPolicy)
	}
	return fmt.Errorf("kind %q is not known, want Kyma, ModuleTemplate, ModuleReleaseMeta, Watcher, RolloutPolicy or Secret", kind.Kind)
}

// withDefaults fills in what an API server would, by the defaults of the CRD. Leaving a module's "managed" out means true.
func withDefaults(kyma any) any {
	object, _ := kyma.(map[string]any)
	spec, _ := object["spec"].(map[string]any)
	modules, _ := spec["modules"].([]any)
	for _, m := range modules {
		module, ok := m.(map[string]any)
		if !ok {
			continue
		}
		for field, value := range map[string]any{"managed": true, "customResourcePolicy": string(v1beta2.PolicyCreateAndDelete)} {
			if _, set := module[field]; !set {
				module[field] = value
			}
		}
	}
	return kyma
}

// named is what an object must have to be told apart.
type named interface{ GetName() string }

func decodeInto[T any](data []byte, into *[]T, check func(*T) error) error {
	var object T
	strictErrors, err := kjson.UnmarshalStrict(data, &object)
	if err = errors.Join(append(strictErrors, err)...); err != nil {
		return err
	}
	if n, ok := any(&object).(named); ok && n.GetName() == "" {
		return errors.New("metadata.name: is required")
	}
	if err := check(&object); err != nil {
		return err
	}
	*into = append(*into, object)
	return nil
}

// checkKyma refuses what an API server would refuse and resolving would take for something else.
func checkKyma(kyma *v1beta2.Kyma) error {
	seen := map[string]bool{}
	for i, m := range kyma.Spec.Modules {
		switch {
		case m.Name == "":
			return fmt.Errorf("spec.modules[%d].name: is required", i)
		case seen[m.Name]:
			return fmt.Errorf("spec.modules[%d].name: %q appears twice", i, m.Name)
		case m.CustomResourcePolicy != v1beta2.PolicyCreateAndDelete && m.CustomResourcePolicy != v1beta2.PolicyIgnore:
			return fmt.Errorf("spec.modules[%d].customResourcePolicy: %q is not known, want %s or %s", i, m.CustomResourcePolicy, v1beta2.PolicyCreateAndDelete, v1beta2.PolicyIgnore)
		}
		seen[m.Name] = true
	}
	return nil
}

// checkSecret takes public keys only: nothing that is secret belongs among the files of a catalog.
func checkSecret(secret *corev1.Secret) error {
	if _, ok := secret.Labels[v1beta2.LabelSignature]; !ok {
		return fmt.Errorf("metadata.labels: only Secrets with public keys, labeled %s with the name of a signature, are read: remove this one", v1beta2.LabelSignature)
	}
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value) // as an API server does
	}
	return nil
}

// checkPolicy refuses one that says nothing, and fills in what an API server would.
func checkPolicy(policy *fleet.RolloutPolicy) error {
	if len(policy.Spec.Waves) == 0 {
		return errors.New("spec.waves: is required")
	}
	if policy.Spec.OfflineAfter.Duration == 0 {
		policy.Spec.OfflineAfter.Duration = 15 * time.Minute
	}
	return nil
}

// checkMeta does the same for a ModuleReleaseMeta.
func checkMeta(meta *v1beta2.ModuleReleaseMeta) error {
	if meta.Spec.ModuleName == "" {
		return errors.New("spec.moduleName: is required")
	}
	seen := map[string]bool{}
	for i, c := range meta.Spec.Channels {
		if seen[c.Channel] {
			return fmt.Errorf("spec.channels[%d].channel: %q appears twice", i, c.Channel)
		}
		seen[c.Channel] = true
	}
	return nil
}
