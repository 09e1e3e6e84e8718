package images

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/bundle"
)

const sum = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestImagesAreLocalizedAndMirrored(t *testing.T) {
	for name, c := range map[string]struct {
		image     string
		localized []string
		mirrors   map[string]string
		want      string // the image, or part of the error
	}{
		"image without a rule is unchanged": {"nginx", nil, nil, "nginx"},
		"localized image with the same name and tag": {
			"example.org/a/scaler:1.0", []string{"local.example/x/scaler:1.0"}, nil, "local.example/x/scaler:1.0",
		},
		"localized image with another tag": {
			"example.org/a/scaler:1.0", []string{"local.example/x/scaler:1.1"}, nil, "example.org/a/scaler:1.0",
		},
		"localized image with another name": {
			"example.org/a/scaler:1.0", []string{"local.example/x/scaler-tools:1.0"}, nil, "example.org/a/scaler:1.0",
		},
		"listed image is unchanged": {
			"example.org/a/scaler:1.0", []string{"local.example/scaler:1.0", "example.org/a/scaler:1.0"}, nil,
			"example.org/a/scaler:1.0",
		},
		"digest is kept": {
			"example.org/scaler:1.0@" + sum, []string{"local.example/scaler:1.0"}, nil, "local.example/scaler:1.0@" +
				sum,
		},
		"digest of the localized image is added": {
			"example.org/scaler:1.0", []string{"local.example/scaler:1.0@" + sum}, nil, "local.example/scaler:1.0@" +
				sum,
		},
		"digest of the listed image is added": {
			"example.org/scaler:1.0", []string{"example.org/scaler:1.0@" + sum}, nil, "example.org/scaler:1.0@" + sum,
		},
		"localized image with a different digest": {
			"example.org/scaler:1.0@" + strings.Replace(sum, "2cf", "3cf", 1),
			[]string{"local.example/scaler:1.0@" + sum}, nil, "has a different digest than",
		},
		"localized image with the longest common path wins": {
			"example.org/a/scaler:1.0", []string{"l.example/b/scaler:1.0", "l.example/a/scaler:1.0"}, nil,
			"l.example/a/scaler:1.0",
		},
		"several localized images with the same common path": {
			"example.org/c/scaler:1.0", []string{"l.example/b/scaler:1.0", "l.example/a/scaler:1.0"}, nil,
			"matches both",
		},
		"image with a digest only": {
			"example.org/scaler@" + sum, []string{"l.example/scaler:1.0@" + sum}, nil, "example.org/scaler@" + sum,
		},
		"mirror of a host": {
			"example.org/a/scaler:1.0", nil, map[string]string{"example.org": "mirror.example/lab"},
			"mirror.example/lab/a/scaler:1.0",
		},
		"longest mirror wins": {
			"example.org/a/scaler:1.0", nil,
			map[string]string{"example.org": "x.example", "example.org/a": "y.example"}, "y.example/scaler:1.0",
		},
		"mirror of a partial path element": {
			"example.org.evil/a:1.0", nil, map[string]string{"example.org": "x.example"}, "example.org.evil/a:1.0",
		},
		"mirror for an alias of Docker Hub": {
			"nginx", nil, map[string]string{"index.docker.io": "m.example"}, "m.example/library/nginx",
		},
		"mirror of the localized image": {
			"example.org/scaler:1.0", []string{"l.example/scaler:1.0"}, map[string]string{"l.example": "m.example"},
			"m.example/scaler:1.0",
		},
		"invalid reference is unchanged": {
			"${IMAGE}", []string{"l.example/scaler:1.0"}, map[string]string{"docker.io": "m.example"}, "${IMAGE}",
		},
		"listed image of a proxy whose name ends with the image's name": {
			"docker.io/a/x:1", []string{"proxy.example/docker.io/a/x:1", "a/x:1@" + sum}, nil, "docker.io/a/x:1@" + sum,
		},
		"mirror with a scheme": {
			"a", nil, map[string]string{"docker.io": "https://m.example"}, "without a scheme",
		},
		"listed image with an invalid reference": {"a", []string{"A B"}, nil, "is not an image reference"},
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: \""+
				c.image+"\"}]}")
			uses, err := Rewrite([]*unstructured.Unstructured{o}, Rewriting{Localized: c.localized, Mirrors: c.mirrors})
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("Rewrite: got error %v, want %q", err, c.want)
				}
				return
			}
			if len(uses) != 1 || uses[0].Image != c.image || uses[0].Rewritten != c.want ||
				uses[0].Field != "spec.containers[0].image" || uses[0].Object != "Pod a" {
				t.Errorf("uses: got %+v, want one image rewritten to %s", uses, c.want)
			}
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "containers")
			if got := containers[0].(map[string]any)["image"]; got != c.want {
				t.Errorf("image of the object: got %v, want %s", got, c.want)
			}
		})
	}
}

func TestRewriteFindsAllImageFieldsOfPods(t *testing.T) {
	pod := `
  initContainers: [{name: a, image: "a:1"}]
  containers: [{name: b, image: "b:1", env: [{name: RELATED, value: "example.org/x/c:1"}, {name: URL, value: "https://c:1"}, {name: OTHER, value: "d:1"}, {name: EMPTY}]}, {name: none}]
  ephemeralContainers: [{name: e, image: "e:1"}]
  volumes: [{name: v, image: {reference: "v:1"}}, {name: w, emptyDir: {}}]
`
	indented := func(by string) string { return strings.ReplaceAll(pod, "\n  ", "\n"+by) }
	want := []string{"a:1", "b:1", "e:1", "v:1", "example.org/x/c:1"}
	for kind, text := range map[string]string{
		"Pod":        "apiVersion: v1\nkind: Pod\nspec:" + pod,
		"Deployment": "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:" + indented("      "),
		"Job":        "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:" + indented("      "),
		"CronJob": "apiVersion: batch/v1\nkind: CronJob\nspec:\n  jobTemplate:\n    spec:\n      template:\n   " +
			"     spec:" + indented("          "),
		"PodTemplate": "apiVersion: v1\nkind: PodTemplate\ntemplate:\n  spec:" + indented("    "),
	} {
		t.Run(kind, func(t *testing.T) {
			uses, err := Rewrite([]*unstructured.Unstructured{object(t, text)},
				Rewriting{Localized: []string{"l.example/c:1"}})
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, use := range uses {
				found = append(found, use.Image)
			}
			if !slices.Equal(found, want) {
				t.Errorf("images: got %v, want %v", found, want)
			}
			if last := uses[len(uses)-1].Rewritten; last != "l.example/c:1" {
				t.Errorf("environment variable: got %s, want l.example/c:1", last)
			}
		})
	}
}

func TestImagePathsAreRewrittenInCustomResources(t *testing.T) {
	text := "apiVersion: a.example/v1\nkind: Keda\nmetadata: {name: k, namespace: n}\nspec: {image: \"a:1\", images: " +
		"{x: \"b:1\", y: \"c:1\"}, parts: [{image: \"d:1\"}, {}, 7]}"
	o := object(t, text)
	paths := []bundle.ImagePath{
		{Group: "a.example", Kind: "Keda", Field: "spec.image"},
		{Group: "a.example", Kind: "Keda", Field: "spec.images.*"},
		{Group: "a.example", Kind: "Keda", Field: "spec.parts[*].image"},
		{Group: "b.example", Kind: "Keda", Field: "spec.missing"}, {
			Group: "a.example", Kind: "Keda", Field: "spec.image.deeper",
		},
	}
	uses, err := Rewrite([]*unstructured.Unstructured{o}, Rewriting{
		Mirrors: map[string]string{"docker.io": "m.example"}, Paths: paths,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := object(t,
		strings.NewReplacer("a:1", "m.example/library/a:1", "b:1", "m.example/library/b:1", "c:1",
			"m.example/library/c:1", "d:1", "m.example/library/d:1").Replace(text))
	if len(uses) != 4 || !reflect.DeepEqual(o, want) {
		t.Errorf("got uses %+v and object\n%v\nwant 4 uses and object\n%v", uses, o, want)
	}
	if _, err := Rewrite(nil,
		Rewriting{Paths: []bundle.ImagePath{{Group: "a", Kind: "B", Field: "spec..x"}}}); err == nil ||
		!strings.Contains(err.Error(), `field "spec..x"`) {
		t.Errorf("invalid field path: got error %v, want it to name the field", err)
	}
}

func TestImagesMissingFromTheComponentAreListed(t *testing.T) {
	uses := []Use{
		{Image: "example.org/scaler:1.0"}, {Image: "example.org/other:1.0"}, {Image: "example.org/other:1.0"},
		{Image: "${X}"},
	}
	if got := UnlistedImages(uses, []string{"l.example/scaler:1.0@" + sum}); !slices.Equal(got,
		[]string{"example.org/other:1.0", "${X}"}) {
		t.Errorf("unlisted images: got %v, want example.org/other:1.0 and ${X}", got)
	}
}

func TestImagesWithoutADigestAreListed(t *testing.T) {
	uses := []Use{
		{Image: "example.org/scaler:1.0", Rewritten: "example.org/scaler:1.0@" + sum},
		{Image: "example.org/other:1.0", Rewritten: "mirror.example/other:1.0"},
		{Image: "example.org/other:1.0", Rewritten: "mirror.example/other:1.0"},
		{Image: "${X}", Rewritten: "${X}"},
	}
	if got := UnpinnedImages(uses); !slices.Equal(got, []string{"example.org/other:1.0", "${X}"}) {
		t.Errorf("unpinned images: got %v, want example.org/other:1.0 and ${X}", got)
	}
}

func TestMirroringIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		image := rapid.StringMatching(`([a-z]{1,5}\.[a-z]{2,3}/)?[a-z]{1,5}(/[a-z]{1,5})?(:[a-z0-9]{1,4})?`).
			Draw(t, "image")
		o := &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{
					"containers": []any{map[string]any{"image": image, "name": "x"}},
				},
			},
		}
		rules := Rewriting{
			Mirrors: map[string]string{"docker.io": "mirror.example:5000/hub", "a.io": "mirror.example:5000/a"},
		}
		first, err := Rewrite([]*unstructured.Unstructured{o}, rules)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Rewrite([]*unstructured.Unstructured{o}, rules)
		if err != nil || second[0].Rewritten != first[0].Rewritten {
			t.Fatalf("error %v: %s was rewritten to %s, and then to %s", err, image, first[0].Rewritten,
				second[0].Rewritten)
		}
	})
}
