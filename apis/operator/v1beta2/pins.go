package v1beta2

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	// AnnotationPinnedVersions on a Kyma contains the modules that are pinned to a version regardless of their channel,
	// such as "keda=1.7.0,istio=1.2.0". It is read from the runtime's Kyma, and from the Kyma in KCP until the runtime
	// has reported its Kyma.
	AnnotationPinnedVersions = "kyma-pull.dev/pinned-versions"
	// maxPinnedVersionsBytes and maxPinnedVersions limit AnnotationPinnedVersions. A bundle can have at most 500
	// modules, and an object's annotations are limited to 256 KiB.
	maxPinnedVersionsBytes = 64 << 10
	maxPinnedVersions      = 500
	// maxVersionBytes is the maximum length of a version in the Kyma CRD.
	maxVersionBytes = 32
	// maxShownBytes is the maximum length of an entry in an error message.
	maxShownBytes = 64
)

// version matches the versions that the Kyma CRD accepts.
var version = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?$`)

// Pin returns the version that the module is pinned to, or "". A module with a channel is not pinned.
func (m Module) Pin() string {
	if m.Channel != "" {
		return ""
	}
	return m.Version
}

// PinnedVersions parses AnnotationPinnedVersions into versions by module. An error contains the entry and the fix.
func PinnedVersions(annotations map[string]string) (map[string]string, error) {
	text := annotations[AnnotationPinnedVersions]
	pins, err := readPins(text)
	if err != nil {
		return nil, fmt.Errorf("metadata.annotations[%s]: %w", AnnotationPinnedVersions, err)
	}
	return pins, nil
}

func readPins(text string) (map[string]string, error) {
	if len(text) > maxPinnedVersionsBytes {
		return nil, fmt.Errorf("the annotation is %d bytes, must be at most %d: pin fewer modules", len(text),
			maxPinnedVersionsBytes)
	}
	pins := map[string]string{}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		module, pinned, _ := strings.Cut(entry, "=")
		module, pinned = strings.TrimSpace(module), strings.TrimSpace(pinned)
		switch {
		case module == "" || len(pinned) > maxVersionBytes || !version.MatchString(pinned):
			return nil, fmt.Errorf("entry %s: must be MODULE=VERSION, such as keda=1.7.0", shown(entry))
		case pins[module] != "":
			return nil, fmt.Errorf("entry %s: duplicate module %s: remove one entry", shown(entry), shown(module))
		case len(pins) == maxPinnedVersions:
			return nil, fmt.Errorf("more than %d modules are pinned: pin fewer modules", maxPinnedVersions)
		}
		pins[module] = pinned
	}
	return pins, nil
}

func shown(text string) string {
	if len(text) > maxShownBytes {
		return fmt.Sprintf("%q...", strings.ToValidUTF8(text[:maxShownBytes], ""))
	}
	return fmt.Sprintf("%q", text)
}

// RequestedSpec returns the Kyma's spec with the versions in AnnotationPinnedVersions. It ignores
// spec.modules[].version, which the Kyma dashboard writes. If the annotation is invalid, it returns an error and a spec
// without versions.
func (k *Kyma) RequestedSpec() (KymaSpec, error) {
	spec := *k.Spec.DeepCopy()
	for i := range spec.Modules {
		spec.Modules[i].Version = ""
	}
	return spec, spec.pin(k.Annotations)
}

// pin sets the version of each module in AnnotationPinnedVersions and clears the module's channel.
func (s *KymaSpec) pin(annotations map[string]string) error {
	pins, err := PinnedVersions(annotations)
	if err != nil {
		return err
	}
	for i := range s.Modules {
		if m := &s.Modules[i]; pins[m.Name] != "" {
			m.Channel, m.Version = "", pins[m.Name]
		}
	}
	return nil
}

// Unpinned returns the spec without its pinned versions, and the value of AnnotationPinnedVersions with the pinned
// versions. A runtime's Kyma has the pinned versions only in this annotation.
func (s KymaSpec) Unpinned() (KymaSpec, string) {
	spec := *s.DeepCopy()
	pins := map[string]string{}
	for i := range spec.Modules {
		if m := &spec.Modules[i]; m.Pin() != "" {
			pins[m.Name], m.Version = m.Version, ""
		}
	}
	return spec, formatPins(pins)
}

func formatPins(pins map[string]string) string {
	entries := make([]string, 0, len(pins))
	for _, module := range slices.Sorted(maps.Keys(pins)) {
		entries = append(entries, module+"="+pins[module])
	}
	return strings.Join(entries, ",")
}
