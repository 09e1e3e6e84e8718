package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Settings configure the agent. A zero value selects the agent's default.
type Settings struct {
	// PollInterval is the interval at which the agent checks for a newer bundle.
	PollInterval metav1.Duration `json:"pollInterval,omitzero"`
	// ReportInterval is the interval between reports while the runtime's state does not change.
	ReportInterval metav1.Duration `json:"reportInterval,omitzero"`
	// Mirrors maps a registry host, or host and path, to its mirror.
	Mirrors map[string]string `json:"mirrors,omitempty"`
	// ImagePaths are the fields of custom resources that contain image references.
	ImagePaths []ImagePath `json:"imagePaths,omitempty"`
	// ImagePullSecret is the name of the Secret in the runtime's namespace kyma-system that module pods use to pull
	// images.
	ImagePullSecret string `json:"imagePullSecret,omitempty"`
	// NamespaceLabels are labels for namespace kyma-system in the runtime; see NamespaceLabelKeys.
	NamespaceLabels map[string]string `json:"namespaceLabels,omitempty"`
	// Autonomy allows the runtime to apply changes to its own Kyma before the control plane responds: AutonomyCatalog,
	// or empty to disallow it.
	Autonomy string `json:"autonomy,omitempty"`
	// Details are the details that the agent adds to its reports, sorted.
	Details []Detail `json:"details,omitempty"`
	// CheckRun requests one check measurement, or is nil.
	CheckRun *CheckRun `json:"checkRun,omitempty"`
	// Agent is the image of the agent, by digest. If empty, the agent keeps the image from its installation.
	Agent string `json:"agent,omitempty"`
	// NextRegistry announces the fleet's next registry. It is nil if the registry does not change.
	NextRegistry *NextRegistry `json:"nextRegistry,omitempty"`
}

// AutonomyCatalog allows a runtime to install modules from the Offers in its last bundle.
const AutonomyCatalog = "Catalog"

// ImagePath identifies a field that contains an image reference.
type ImagePath struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Field is a path such as "spec.images.*" or "spec.components[*].image".
	Field string `json:"field"`
}

// NamespaceLabelKeys are the only labels on kyma-system that a bundle's settings can change. Other labels could disable
// the runtime's own policies.
//
// Source: lifecycle-manager, api/shared/operator_labels.go; Istio, automatic sidecar injection.
var NamespaceLabelKeys = []string{"istio-injection", "istio.io/rev", "namespaces.warden.kyma-project.io/validate"}

const (
	maxMirrors        = 100
	maxImagePaths     = 100
	maxImagePathSteps = 16
)

func (s Settings) checkNamespace() error {
	for key, value := range s.NamespaceLabels {
		if !slices.Contains(NamespaceLabelKeys, key) {
			return fmt.Errorf("settings: namespace label %.300q: must be one of %s", key,
				strings.Join(NamespaceLabelKeys, ", "))
		}
		if problems := validation.IsValidLabelValue(value); value == "" || len(problems) > 0 {
			return fmt.Errorf("settings: namespace label %s: %.300q is not a valid label value", key, value)
		}
	}
	if s.ImagePullSecret != "" {
		if err := checkSecretName(v1beta2.RuntimeNamespace, s.ImagePullSecret); err != nil {
			return fmt.Errorf("settings: image pull %w", err)
		}
	}
	return nil
}

func (s Settings) checkMirrors() error {
	names := map[string]string{}
	for from, to := range s.Mirrors {
		one := CanonicalRegistry(from)
		if other, twice := names[one]; twice {
			return fmt.Errorf("settings: mirrors: %s and %s are names of the same registry %s: keep one of them", from,
				other, one)
		}
		names[one] = from
		for _, name := range []string{from, to} {
			image, err := reference.Parse(strings.TrimSuffix(name, "/") + "/image")
			if _, named := image.(reference.Named); err != nil || !named {
				return fmt.Errorf("settings: mirror of %s: %q: must be HOST or HOST/PATH without a scheme", from, name)
			}
		}
	}
	return nil
}

func (s Settings) checkIntervals() error {
	if s.PollInterval.Duration < 0 {
		return fmt.Errorf("settings: poll interval %s: must be at least 0", s.PollInterval.Duration)
	}
	if s.ReportInterval.Duration < 0 {
		return fmt.Errorf("settings: report interval %s: must be at least 0", s.ReportInterval.Duration)
	}
	return nil
}

// Check returns an error for invalid settings. The publisher and the agent call it.
func (s Settings) Check() error {
	if len(s.Mirrors) > maxMirrors || len(s.ImagePaths) > maxImagePaths {
		return fmt.Errorf("settings: %d mirrors and %d image paths, must be at most %d and %d", len(s.Mirrors),
			len(s.ImagePaths), maxMirrors, maxImagePaths)
	}
	if err := s.checkIntervals(); err != nil {
		return err
	}
	if s.Autonomy != "" && s.Autonomy != AutonomyCatalog {
		return fmt.Errorf("settings: autonomy %q: must be %s or empty", s.Autonomy, AutonomyCatalog)
	}
	if s.Agent != "" {
		image, err := reference.Parse(s.Agent)
		if _, pinned := image.(reference.Canonical); err != nil || !pinned {
			return fmt.Errorf("settings: agent image %q: must be HOST/PATH@sha256:…", s.Agent)
		}
	}
	if err := s.checkNamespace(); err != nil {
		return err
	}
	if err := s.checkDetails(); err != nil {
		return err
	}
	if err := s.CheckRun.check(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if err := s.NextRegistry.check(); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if err := s.checkMirrors(); err != nil {
		return err
	}
	for _, p := range s.ImagePaths {
		if p.Kind == "" {
			return fmt.Errorf("settings: image path %q: kind is required", p.Field)
		}
		if _, err := p.Steps(); err != nil {
			return fmt.Errorf("settings: image path of %s: %w", p.Kind, err)
		}
	}
	return nil
}

// Steps returns the field names in the path; "*" selects all entries of a map or list.
func (p ImagePath) Steps() ([]string, error) {
	steps := strings.Split(strings.ReplaceAll(p.Field, "[*]", ".*"), ".")
	for _, step := range steps {
		if step == "" || strings.ContainsAny(step, "[]") {
			return nil,
				fmt.Errorf("field %q: must be names separated by dots, with * or [*] for all entries of a map or list",
					p.Field)
		}
	}
	if len(steps) > maxImagePathSteps {
		return nil, fmt.Errorf("field %q: %d steps, must be at most %d", p.Field, len(steps), maxImagePathSteps)
	}
	return steps, nil
}

// ParseMirrors parses the values of --mirror flags into Settings.Mirrors: FROM=TO, each HOST or HOST/PATH.
func ParseMirrors(flags []string) (map[string]string, error) {
	var mirrors map[string]string
	for _, text := range flags {
		from, to, ok := strings.Cut(text, "=")
		from, to = CanonicalRegistry(from), strings.TrimSuffix(to, "/")
		if !ok || from == "" || to == "" || strings.Contains(text, "://") {
			return nil,
				fmt.Errorf("--mirror %q: must be FROM=TO without schemes, such as docker.io=registry.example/docker",
					text)
		}
		if _, twice := mirrors[from]; twice {
			return nil, fmt.Errorf("--mirror %q: %s already has a mirror", text, from)
		}
		if mirrors == nil {
			mirrors = map[string]string{}
		}
		mirrors[from] = to
	}
	if err := (Settings{Mirrors: mirrors}).Check(); err != nil {
		return nil, fmt.Errorf("--mirror: %w", err)
	}
	return mirrors, nil
}

// CanonicalRegistry returns the canonical name of a registry, HOST or HOST/PATH. Docker Hub has several names.
func CanonicalRegistry(registry string) string {
	host, path, _ := strings.Cut(strings.TrimSuffix(registry, "/"), "/")
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = "docker.io"
	}
	return strings.TrimSuffix(host+"/"+path, "/")
}

// MirroredName returns the name of an image repository with its registry replaced by the mirror. It uses the longest
// matching entry of Mirrors, and returns the name unchanged if no entry matches.
func (s Settings) MirroredName(name string) string {
	best := ""
	for from := range s.Mirrors {
		if (name == from || strings.HasPrefix(name, from+"/")) && len(from) > len(best) {
			best = from
		}
	}
	if best == "" {
		return name
	}
	return s.Mirrors[best] + strings.TrimPrefix(name, best)
}

// ImageRules is the value of v1beta2.AnnotationImages on a Manifest. It configures how the agent rewrites a module's
// images.
type ImageRules struct {
	// Settings contains only the mirrors, the image paths and the pull Secret.
	Settings
	// Pinned is true if the module must not use an image without a digest.
	Pinned bool `json:"pinned,omitempty"`
}
