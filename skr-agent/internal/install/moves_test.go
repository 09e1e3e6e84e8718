package install

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// unwritten returns the Manifest for a version that is in the bundle but not yet in the cluster. If isStored is true,
// the content store contains the version's content.
func (w *world) unwritten(name, yaml string, isStored bool) v1beta2.Manifest {
	w.Helper()
	d := digest.FromString(yaml)
	if isStored {
		require.NoError(w, w.content.Put(w.Context(), d, []byte(yaml)))
	}
	source, err := json.Marshal(v1beta2.ImageSpec{Name: name, Ref: d.String(), Type: v1beta2.OCIRef})
	require.NoError(w, err)
	live := w.manifest(name)
	m := v1beta2.Manifest{Spec: live.Spec}
	m.Namespace, m.Name, m.Labels, m.Annotations = live.Namespace, live.Name, live.Labels, live.Annotations
	m.Spec.Version, m.Spec.Install.Source.Raw = "2.0.0", source
	return m
}

func TestMovedObjectStaysUntilItsNewOwnerIsUpgraded(t *testing.T) {
	var unwritten atomic.Pointer[[]v1beta2.Manifest]
	unwritten.Store(&[]v1beta2.Manifest{})
	w := newWorldWith(t, Options{Unwritten: func() []v1beta2.Manifest { return *unwritten.Load() }})
	ready := func(modules ...string) {
		w.Helper()
		for _, module := range modules {
			w.eventually(module+" is installed", func() bool { return planning.Installed(w.manifest(module)) })
			w.state(module, v1beta2.StateReady, "")
		}
	}
	moved := &corev1.ConfigMap{}
	w.wants("loses", aConfigMap("loses")+aConfigMap("moved"), version("1.0.0"))
	w.wants("removed", aConfigMap("removed")+aConfigMap("left"), version("1.0.0"))
	w.wants("takes", aConfigMap("takes"), version("1.0.0"))
	ready("loses", "removed", "takes")
	before := []types.UID{w.uid(moved, "moved"), w.uid(moved, "left")}

	t.Log("the upgrade of the other module waits, and its content is not fetched yet")
	content := aConfigMap("takes") + aConfigMap("moved") + aConfigMap("left")
	unwritten.Store(&[]v1beta2.Manifest{w.unwritten("takes", content, false)})
	w.wants("loses", aConfigMap("loses"), version("2.0.0"))
	w.state("loses", v1beta2.StateReady,
		"waiting for the takeover of ConfigMap kyma-system/moved by module takes, whose content is missing")

	t.Log("the upgrade of the other module waits for its window")
	unwritten.Store(&[]v1beta2.Manifest{w.unwritten("takes", content, true)})
	w.remove("removed")
	w.state("removed", v1beta2.StateDeleting, "waiting for the takeover of ConfigMap kyma-system/left by module takes")
	w.wants("loses", aConfigMap("loses")+aConfigMap("other"), version("2.1.0"))
	w.state("loses", v1beta2.StateReady, "waiting for the takeover of ConfigMap kyma-system/moved by module takes")
	require.False(t, w.exists(&corev1.ConfigMap{}, home, "removed"))

	t.Log("the agent starts again, and the window opens")
	w.halt()
	w.start()
	w.wants("takes", content, version("2.0.0"))
	ready("takes")
	unwritten.Store(&[]v1beta2.Manifest{})
	w.eventually("the object has moved", func() bool {
		return strings.Contains(named(w.manifest("takes").Status.Synced), "moved") &&
			!strings.Contains(named(w.manifest("loses").Status.Synced), "moved")
	})
	w.eventually("the module is removed", func() bool { return !w.exists(&v1beta2.Manifest{}, home, "removed") })
	require.Equal(t, before, []types.UID{w.uid(moved, "moved"), w.uid(moved, "left")})
	require.Equal(t, "kyma-system/takes", moved.Annotations[v1beta2.AnnotationOwnedBy])

	t.Log("an object is deleted if the new bundle does not move it anymore")
	unwritten.Store(&[]v1beta2.Manifest{w.unwritten("takes", content+aConfigMap("other"), true)})
	w.wants("loses", aConfigMap("loses"), version("3.0.0"))
	w.state("loses", v1beta2.StateReady, "waiting for the takeover of ConfigMap kyma-system/other")
	unwritten.Store(&[]v1beta2.Manifest{})
	w.wants("loses", aConfigMap("loses")+aConfigMap("last"), version("3.1.0"))
	w.eventually("the object is deleted", func() bool { return !w.exists(moved, home, "other") })
	ready("loses")
}

func TestDefaultCRMovesWithoutDeletion(t *testing.T) {
	w := newWorld(t)
	const group = "moving.example.org"
	w.wants("crds", crdOf("Mover", group), version("1.0.0"))
	w.state("crds", v1beta2.StateReady, "")
	// role is an object's role in a module version: part of the content, the default CR, or none.
	type role int
	const (
		unused role = iota
		inContent
		isDefaultCR
	)
	for name, c := range map[string]struct {
		name string
		// before and after are the object's roles in the two versions of the first module. taker is its role in the
		// second version of the second module.
		before, after, taker role
		isRemoved            bool
	}{
		"content becomes default CR":                  {"one", inContent, isDefaultCR, unused, false},
		"default CR becomes content":                  {"two", isDefaultCR, inContent, unused, false},
		"content becomes other module's default CR":   {"three", inContent, unused, isDefaultCR, false},
		"default CR becomes other module's content":   {"four", isDefaultCR, unused, inContent, false},
		"default CR moves to other module":            {"five", isDefaultCR, unused, isDefaultCR, false},
		"removed module's content becomes default CR": {"six", inContent, unused, isDefaultCR, true},
		"removed module's default CR becomes content": {"seven", isDefaultCR, unused, inContent, true},
		"removed module's default CR moves":           {"eight", isDefaultCR, unused, isDefaultCR, true},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := "a-"+c.name, "b-"+c.name
			wants := func(module, v string, is role) {
				content := aConfigMap(module)
				if is == inContent {
					content += customText("Mover", group, c.name)
				}
				w.wants(module, content, version(v), func(m *v1beta2.Manifest) {
					m.Spec.Resource, m.Spec.CustomResourcePolicy = nil, ""
					if is == isDefaultCR {
						m.Spec.Resource = custom(group+"/v1", "Mover", home, c.name)
						m.Spec.CustomResourcePolicy = v1beta2.PolicyCreateAndDelete
					}
				})
			}
			wants(first, "1.0.0", c.before)
			wants(second, "1.0.0", unused)
			w.state(first, v1beta2.StateReady, "")
			w.state(second, v1beta2.StateReady, "")
			o := custom(group+"/v1", "Mover", home, c.name)
			before := w.uid(o, c.name)
			wants(second, "2.0.0", c.taker)
			if c.isRemoved {
				w.remove(first)
				w.eventually("the module is removed", func() bool { return !w.exists(&v1beta2.Manifest{}, home, first) })
			} else {
				wants(first, "2.0.0", c.after)
			}
			owner := first
			if c.taker != unused {
				owner = second
			}
			w.eventually("the new version is installed", func() bool {
				m := w.manifest(owner)
				return m.Status.State == v1beta2.StateReady && planning.Installed(m) && m.Spec.Version == "2.0.0" &&
					w.exists(o, home, c.name) && o.GetAnnotations()[v1beta2.AnnotationOwnedBy] == home+"/"+owner
			})
			require.Equal(t, before, o.GetUID())
			w.remove(owner)
			w.eventually("the CR is removed with its new owner", func() bool { return !w.exists(o, home, c.name) })
		})
	}
}

// movable returns a CRD and a ConfigMap. declared is their annotation as NAME: MODULE, or "".
func movable(kind, declared string) string {
	annotated := strings.Replace(crdOf(kind, "declared.example.org"), "metadata: {", "metadata: {annotations: {"+
		declared+"}, ", 1)
	return annotated + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + strings.ToLower(kind) +
		"-settings, annotations: {" + declared + "}}\n---\n"
}

// Each step requests one version of a module, as if a bundle changed this module only.
func TestDeclaredMovesKeepObjectsInAnyOrder(t *testing.T) {
	w := newWorld(t)
	type step struct {
		version string // a1, a2, a3, b1, b2 or b3; "-a" and "-b" remove a module
		owner   string
	}
	for name, c := range map[string]struct {
		kind  string
		steps []step
	}{
		"previous owner first": {
			"First", []step{{"a1", "a"}, {"b1", "a"}, {"a2", "a"}, {"b2", "b"}, {"a3", "b"}, {"b3", "b"}},
		},
		"next owner first": {
			"Next", []step{{"b1", ""}, {"a1", "a"}, {"b2", "a"}, {"a2", "b"}, {"b3", "b"}, {"a3", "b"}},
		},
		"next owner first, and previous owner omits the objects": {
			"Omits", []step{{"a1", "a"}, {"b2", "a"}, {"a3", "b"}},
		},
		"next owner is rolled back": {"Back", []step{{"a2", "a"}, {"b2", "b"}, {"b1", "a"}, {"b2", "b"}}},
		"previous owner is rolled back": {
			"Again", []step{{"a1", "a"}, {"b2", "a"}, {"a2", "b"}, {"a1", "a"}, {"a2", "b"}},
		},
		"previous owner is removed": {"Left", []step{{"a1", "a"}, {"b2", "a"}, {"-a", "b"}}},
		"next owner is removed":     {"Gone", []step{{"a2", "a"}, {"b2", "b"}, {"-b", "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := "a-"+strings.ToLower(c.kind), "b-"+strings.ToLower(c.kind)
			contents := map[string]string{
				"a1": movable(c.kind, ""), "a2": movable(c.kind, "kyma-pull.dev/moves-to: "+b), "a3": "",
				"b1": "", "b2": movable(c.kind, "kyma-pull.dev/moves-from: "+a), "b3": movable(c.kind, ""),
			}
			names := map[string]string{"a": a, "b": b}
			definition, config := &apiextensionsv1.CustomResourceDefinition{}, &corev1.ConfigMap{}
			crd := strings.ToLower(c.kind) + "s.declared.example.org"
			var uids [2]types.UID
			for _, s := range c.steps {
				t.Log("step " + s.version)
				module := names[s.version[:1]]
				if s.version[0] == '-' {
					module = names[s.version[1:]]
					w.remove(module)
					w.eventually(module+" is removed", func() bool { return !w.exists(&v1beta2.Manifest{}, home, module) })
				} else {
					w.wants(module, aConfigMap(module)+contents[s.version], version(s.version[1:]+".0.0"))
				}
				w.eventually("the modules are ready and the owner is "+s.owner, func() bool {
					isReady := s.version[0] == '-' || planning.Installed(w.manifest(module)) &&
						w.manifest(module).Status.State == v1beta2.StateReady
					if s.owner == "" {
						return isReady
					}
					return isReady && w.exists(definition, "", crd) &&
						w.exists(config, home, strings.ToLower(c.kind)+"-settings") &&
						definition.Annotations[v1beta2.AnnotationOwnedBy] == home+"/"+names[s.owner] &&
						config.Annotations[v1beta2.AnnotationOwnedBy] == home+"/"+names[s.owner]
				})
				if s.owner == "" {
					continue
				}
				now := [2]types.UID{definition.UID, config.UID}
				if uids[0] == "" {
					uids = now
					w.eventually("a user creates a custom resource", func() bool {
						return w.client.Create(t.Context(), custom("declared.example.org/v1", c.kind, "default", "users")) == nil
					})
				}
				require.Equal(t, uids, now)
				require.True(t, definition.DeletionTimestamp.IsZero())
				owner := names[s.owner]
				w.eventually("only the owner has the objects in its inventory", func() bool {
					isOnly := strings.Contains(named(w.manifest(owner).Status.Synced), crd)
					for _, other := range names {
						var m v1beta2.Manifest
						isOnly = isOnly && (other == owner || !w.exists(&m, home, other) ||
							!strings.Contains(named(m.Status.Synced), crd))
					}
					return isOnly
				})
			}
			require.True(t, w.exists(custom("declared.example.org/v1", c.kind, "default", "users"), "default", "users"))
		})
	}
}

func TestModuleCannotTakeObjectsByDeclaringAMove(t *testing.T) {
	w := newWorld(t)
	moved := &corev1.ConfigMap{}
	const text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: victims, annotations: {DECLARED}}\n---\n"
	declaring := func(annotation string) string { return strings.Replace(text, "DECLARED", annotation, 1) }
	w.wants("victim", aConfigMap("victim")+declaring(""), version("1.0.0"))
	w.state("victim", v1beta2.StateReady, "")
	before := w.uid(moved, "victims")

	t.Log("a thief's declarations do not replace the owner's consent")
	for n, annotation := range []string{"", "kyma-pull.dev/moves-to: other", "kyma-pull.dev/moves-from: other"} {
		w.wants("thief", aConfigMap("thief")+declaring(annotation), version(fmt.Sprintf("1.%d.0", n)))
		w.state("thief", v1beta2.StateError, "ConfigMap kyma-system/victims already belongs to module victim")
	}
	w.wants("thief", aConfigMap("thief")+declaring("kyma-pull.dev/moves-from: victim"), version("2.0.0"))
	w.state("thief", v1beta2.StateReady, "ConfigMap kyma-system/victims moves from module victim once that "+
		"module's version releases the object")
	require.Equal(t, before, w.uid(moved, "victims"))
	require.Equal(t, "kyma-system/victim", moved.Annotations[v1beta2.AnnotationOwnedBy])

	t.Log("an annotation on the live object is not a consent")
	metav1.SetMetaDataAnnotation(&moved.ObjectMeta, v1beta2.AnnotationMovesTo, "thief")
	require.NoError(t, w.client.Update(t.Context(), moved))
	w.wants("thief", aConfigMap("thief")+declaring(""), version("3.0.0"))
	w.state("thief", v1beta2.StateError, "ConfigMap kyma-system/victims already belongs to module victim")
	require.Equal(t, before, w.uid(moved, "victims"))
	require.Equal(t, "kyma-system/victim", moved.Annotations[v1beta2.AnnotationOwnedBy])
}
