package objects

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/takeover"
)

// fromBundle lists those annotations of the agent that a bundle can set on a Manifest.
var fromBundle = []string{
	v1beta2.AnnotationCustomStateCheck, v1beta2.AnnotationRecreate, v1beta2.AnnotationUsesValues,
	v1beta2.AnnotationRequiresFeatures,
}

// labelsFromBundle lists the labels that a bundle can set on a Manifest. Other labels belong to users.
var labelsFromBundle = []string{
	v1beta2.LabelKymaName, v1beta2.LabelManagedBy, v1beta2.LabelChannel, v1beta2.LabelControllerName,
	v1beta2.LabelMandatoryModule,
}

// completeManifest returns a Manifest of the bundle with the labels and annotations that the agent adds, such as the
// module's name, image rules and values. It drops other annotations of the agent from the bundle's Manifest, because a
// bundle must not replace the state that the agent records in them.
func completeManifest(want bundle.Manifest, b *bundle.Bundle) bundle.Manifest {
	annotations := map[string]string{}
	set := func(annotation, value string) {
		if value != "" {
			annotations[annotation] = value
		}
	}
	for annotation, value := range want.Annotations {
		domain, _, _ := strings.Cut(annotation, "/")
		if domain != agentDomain && domain != v1beta2.Group || slices.Contains(fromBundle, annotation) {
			annotations[annotation] = value
		}
	}
	if want.Name != want.Module {
		set(v1beta2.AnnotationModule, want.Module)
	}
	set(v1beta2.AnnotationFQDN, want.Component)
	set(v1beta2.AnnotationImages, imageRules(want.Release, b.State.Settings))
	set(v1beta2.AnnotationValues, b.Statement.Predicate.Values.For(want).String())
	set(v1beta2.AnnotationKymas, takeover.KymasAnnotation(b.Statement.Predicate))
	want.Annotations = annotations
	labels := map[string]string{}
	for label, value := range want.Labels {
		if slices.Contains(labelsFromBundle, label) {
			labels[label] = value
		}
	}
	labels[v1beta2.LabelModuleName] = bundle.ManifestName(want.Module)
	want.Labels = labels
	return want
}

const agentDomain = "kyma-pull.dev"

// imageRules returns the value of the annotation with the rules for a module's images: mirrors, paths and the pull
// Secret. A module with a proof of release must pin its images, so the rules require digests.
func imageRules(release []bundle.Content, settings bundle.Settings) string {
	rules := bundle.ImageRules{
		Settings: bundle.Settings{
			Mirrors: settings.Mirrors, ImagePaths: settings.ImagePaths, ImagePullSecret: settings.ImagePullSecret,
		},
		Pinned: len(release) > 0,
	}
	if len(rules.Mirrors)+len(rules.ImagePaths) == 0 && rules.ImagePullSecret == "" && !rules.Pinned {
		return ""
	}
	text, err := json.Marshal(rules)
	if err != nil {
		panic(fmt.Sprintf("settings always encode: %v", err)) // cannot happen: the settings were decoded from JSON
	}
	return string(text)
}
