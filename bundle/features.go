package bundle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// Feature names a part of the wire format that a supported version may lack. Names are a contract: add new ones, never
// rename or reuse one.
type Feature string

const (
	// FeatureTakeover is DesiredState.Takeover and Manifest.Inherited.
	FeatureTakeover Feature = "takeover"
	// FeatureImagePullSecret is Settings.ImagePullSecret.
	FeatureImagePullSecret Feature = "image-pull-secret"
	// FeatureNamespaceLabels is Settings.NamespaceLabels.
	FeatureNamespaceLabels Feature = "namespace-labels"
	// FeatureRecreate is the annotation recreate of a Manifest, and of objects in a module's content. Who does not know it
	// recreates nothing, and says so.
	FeatureRecreate Feature = "recreate"
)

// features lists all features of this version, sorted. Every supported version understands the rest of the wire format.
var features = []Feature{
	FeatureImagePullSecret, FeatureNamespaceLabels, FeatureRecreate, FeatureTakeover,
}

// Limits of lists of features.
const (
	maxFeatures     = 64
	maxFeatureBytes = 64
)

// AllFeatures returns the features of this version, sorted. Its agents report all of them.
func AllFeatures() []Feature { return slices.Clone(features) }

// IsFeature reports whether this version knows the feature.
func IsFeature(name Feature) bool { return slices.Contains(features, name) }

// Features returns what an agent has to understand to follow the settings, sorted.
func (s Settings) Features() []Feature {
	var all []Feature
	if s.ImagePullSecret != "" {
		all = append(all, FeatureImagePullSecret)
	}
	if len(s.NamespaceLabels) > 0 {
		all = append(all, FeatureNamespaceLabels)
	}
	return all
}

// Without returns the settings without those that need a feature which is not there, and the features that they need,
// sorted.
func (s Settings) Without(understood func(Feature) bool) (Settings, []Feature) {
	var left []Feature
	for _, f := range s.Features() {
		if understood(f) {
			continue
		}
		left = append(left, f)
		switch f {
		case FeatureImagePullSecret:
			s.ImagePullSecret = ""
		case FeatureNamespaceLabels:
			s.NamespaceLabels = nil
		}
	}
	return s, left
}

// Features returns what an agent has to understand to install the module as it is meant: what it uses, and what its
// ModuleTemplate requires.
func (m Manifest) Features() []Feature {
	var all []Feature
	for _, name := range strings.FieldsFunc(m.Annotations[v1beta2.AnnotationRequiresFeatures], func(r rune) bool { return r == ',' || r == ' ' }) {
		all = append(all, Feature(name))
	}
	if len(m.Inherited) > 0 {
		all = append(all, FeatureTakeover)
	}
	return all
}

// Critical returns the features without which an agent would do something else than the state says, sorted. Settings
// are not among them: they are left out for an agent that does not understand them.
func (s DesiredState) Critical() []Feature {
	var all []Feature
	if s.Takeover != "" {
		all = append(all, FeatureTakeover)
	}
	for _, manifests := range [][]Manifest{s.Manifests, s.Offers, s.Leaving} {
		for _, m := range manifests {
			all = append(all, m.Features()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Features returns what an agent has to understand to follow the state, sorted.
func (s DesiredState) Features() []Feature {
	all := append(s.Critical(), s.Settings.Features()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// checkCritical refuses a statement that nobody may follow who does not know all of its critical features.
func checkCritical(payload []byte) *refusal.Error {
	var statement struct {
		Predicate struct {
			Critical []Feature `json:"critical"`
		} `json:"predicate"`
	}
	if err := json.Unmarshal(payload, &statement); err != nil {
		return refusal.New(refusal.Malformed, "statement: %w", err)
	}
	list := statement.Predicate.Critical
	if err := checkFeatures(list); err != nil {
		return refusal.New(refusal.Malformed, "statement: critical%w", err)
	}
	for _, f := range list {
		if !IsFeature(f) {
			return refusal.New(refusal.UnsupportedFeature, "needs the feature %s, which this version does not have: upgrade it", f)
		}
	}
	return nil
}

// checkFeatures checks that names are names, sorted, each once.
func checkFeatures(list []Feature) error {
	if len(list) > maxFeatures {
		return fmt.Errorf(": %d features, at most %d", len(list), maxFeatures)
	}
	for i, f := range list {
		if !f.Valid() {
			return fmt.Errorf("[%d]: %s: want lower-case letters, digits and hyphens, at most %d", i, Quote(string(f), maxFeatureBytes), maxFeatureBytes)
		}
		if i > 0 && list[i-1] >= f {
			return fmt.Errorf("[%d]: %s: want names sorted, each once", i, f)
		}
	}
	return nil
}

// Valid reports whether a feature can have this name.
func (f Feature) Valid() bool {
	return f != "" && len(f) <= maxFeatureBytes && strings.Trim(string(f), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
