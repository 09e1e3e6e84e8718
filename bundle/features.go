package bundle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// Feature identifies a part of the wire format that not all supported agent versions understand. The name of a feature
// never changes.
type Feature string

const (
	// FeatureTakeover covers DesiredState.Takeover and Manifest.Inherited.
	FeatureTakeover Feature = "takeover"
	// FeatureImagePullSecret covers Settings.ImagePullSecret.
	FeatureImagePullSecret Feature = "image-pull-secret"
	// FeatureNamespaceLabels covers Settings.NamespaceLabels.
	FeatureNamespaceLabels Feature = "namespace-labels"
	// FeatureRecreate covers the recreate annotation on a Manifest and on objects in a module's content.
	FeatureRecreate Feature = "recreate"
	// FeatureChecks covers Manifest.Checks and ReportedModule.Checks.
	FeatureChecks Feature = "checks"
	// FeatureDetails covers Settings.Details.
	FeatureDetails Feature = "report-details"
	// FeatureCheckRun covers Settings.CheckRun and Report.CheckRun.
	FeatureCheckRun Feature = "check-run"
	// FeatureValues covers Predicate.Values and the uses-values annotation on a Manifest.
	FeatureValues Feature = "values"
	// FeatureValueTypes covers references with a type in the uses-values annotation on a Manifest.
	FeatureValueTypes Feature = "value-types"
	// FeatureNextRegistry covers Settings.NextRegistry.
	FeatureNextRegistry Feature = "next-registry"
)

var features = []Feature{
	FeatureCheckRun, FeatureChecks, FeatureImagePullSecret, FeatureNamespaceLabels, FeatureNextRegistry,
	FeatureRecreate,
	FeatureDetails,
	FeatureTakeover, FeatureValueTypes, FeatureValues,
}

const (
	maxFeatures     = 64
	maxFeatureBytes = 64
)

// AllFeatures returns the features that this version of kyma-pull supports, sorted. Agents report all of them.
func AllFeatures() []Feature { return slices.Clone(features) }

// IsFeature reports whether this version of kyma-pull supports the feature.
func IsFeature(name Feature) bool { return slices.Contains(features, name) }

// Features returns the features that an agent needs for the settings, sorted.
func (s Settings) Features() []Feature {
	var all []Feature
	if s.ImagePullSecret != "" {
		all = append(all, FeatureImagePullSecret)
	}
	if len(s.NamespaceLabels) > 0 {
		all = append(all, FeatureNamespaceLabels)
	}
	if s.NextRegistry != nil {
		all = append(all, FeatureNextRegistry)
	}
	if len(s.Details) > 0 {
		all = append(all, FeatureDetails)
	}
	if s.CheckRun != nil {
		all = append(all, FeatureCheckRun)
	}
	return all
}

// Without removes the settings that need an unsupported feature. It returns the remaining settings and the missing
// features, sorted.
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
		case FeatureNextRegistry:
			s.NextRegistry = nil
		case FeatureDetails:
			s.Details = nil
		case FeatureCheckRun:
			s.CheckRun = nil
		}
	}
	return s, left
}

// Features returns the features that an agent needs to install the module.
func (m Manifest) Features() []Feature {
	var all []Feature
	for _, name := range strings.FieldsFunc(m.Annotations[v1beta2.AnnotationRequiresFeatures],
		func(r rune) bool { return r == ',' || r == ' ' }) {
		all = append(all, Feature(name))
	}
	if len(m.Inherited) > 0 {
		all = append(all, FeatureTakeover)
	}
	if m.Annotations[v1beta2.AnnotationUsesValues] != "" {
		all = append(all, FeatureValues)
	}
	if slices.ContainsFunc(m.ValueRefs(), ValueRef.IsTyped) {
		all = append(all, FeatureValueTypes)
	}
	return all
}

// CriticalFeatures returns the features that an agent must support to apply the desired state, sorted. It excludes the
// features in Settings, because the publisher omits settings that an agent does not support.
func (s DesiredState) CriticalFeatures() []Feature {
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

// Features returns all features that the desired state uses, including the features in its settings, sorted.
func (s DesiredState) Features() []Feature {
	all := append(s.CriticalFeatures(), s.Settings.Features()...)
	slices.Sort(all)
	return slices.Compact(all)
}

// checkCritical refuses a statement with a critical feature that this version of kyma-pull does not support.
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
			return refusal.New(refusal.UnsupportedFeature,
				"requires feature %s, which this version of kyma-pull does not support: upgrade to a newer version", f)
		}
	}
	return nil
}

func checkFeatures(list []Feature) error {
	if len(list) > maxFeatures {
		return fmt.Errorf(": %d features, must be at most %d", len(list), maxFeatures)
	}
	for i, f := range list {
		if !f.IsValid() {
			return fmt.Errorf("[%d]: %s: must be at most %d lower-case letters, digits and hyphens", i,
				Quote(string(f), maxFeatureBytes), maxFeatureBytes)
		}
		if i > 0 && list[i-1] >= f {
			return fmt.Errorf("[%d]: %s: names must be sorted and unique", i, f)
		}
	}
	return nil
}

// IsValid reports whether the name is valid for a feature.
func (f Feature) IsValid() bool {
	return f != "" && len(f) <= maxFeatureBytes &&
		strings.Trim(string(f), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
