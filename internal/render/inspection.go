package render

//lint:file-ignore SA1019 kustomize still loads the files of its deprecated fields, so they must be inspected too.

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

const (
	// maxBuilds limits the number of builds for one overlay. kustomize builds a base again for each kustomization
	// that refers to it, so a few small files could cause an exponential number of builds.
	maxBuilds = 200
	// maxOverlayFileBytes limits the size of a file that kustomize parses. A file with all of a large module's objects
	// is about 2 MiB.
	maxOverlayFileBytes = 8 << 20
)

// inspection checks every kustomization in an overlay before kustomize reads it. It accepts only references to files in
// the content. kustomize would download some references that look like paths, such as github.com/owner/name.
type inspection struct {
	files tree
	// builds contains the number of builds for each folder, or 0 while the folder is inspected.
	builds map[string]int
}

func (i *inspection) kustomization(folder string) error {
	_, err := i.visit(folder)
	return err
}

// visit inspects the kustomization in a folder. It returns the number of builds, including builds for referenced
// folders.
func (i *inspection) visit(folder string) (int, error) {
	if builds, known := i.builds[folder]; known {
		if builds == 0 {
			return 0,
				fmt.Errorf("folder %s refers to itself through other kustomizations: remove one of the references",
					folder)
		}
		return builds, nil
	}
	name, err := i.files.kustomizationIn(folder)
	if err != nil {
		return 0, err
	}
	i.builds[folder] = 0
	k, err := i.read(name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	if err := i.references(folder, k); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	builds := 1
	for _, reference := range slices.Concat(k.Resources, k.Bases, k.Components) {
		target := path.Join(folder, reference)
		if _, isFile := i.files[target]; isFile {
			continue
		}
		below, err := i.visit(target)
		if err != nil {
			return 0, err
		}
		if builds += below; builds > maxBuilds {
			return 0, fmt.Errorf("%s requires more than %d kustomizations", name, maxBuilds)
		}
	}
	i.builds[folder] = builds
	return builds, nil
}

func (i *inspection) read(name string) (k types.Kustomization, err error) {
	if err := checkSize(i.files[name]); err != nil {
		return k, err
	}
	if err := strict.CheckYAML(i.files[name], strict.Limits{ExpandedBytes: maxExpanded}); err != nil {
		return k, err
	}
	if err := yaml.UnmarshalStrict(i.files[name], &k); err != nil {
		return k, err
	}
	for field, used := range map[string]bool{
		"helmCharts": len(k.HelmCharts) > 0, "helmGlobals": k.HelmGlobals != nil,
		"helmChartInflationGenerator": len(k.HelmChartInflationGenerator) > 0,
	} {
		if used {
			return k,
				fmt.Errorf("%s: Helm charts are not supported here: use content type %s, or add the rendered objects",
					field, v1beta2.HelmChart)
		}
	}
	for field, used := range map[string]int{
		"generators": len(k.Generators), "validators": len(k.Validators),
	} {
		if used > 0 {
			return k, fmt.Errorf("%s: plugins are not supported: use the built-in fields of the kustomization", field)
		}
	}
	return k, nil
}

// references checks a kustomization's references and inline patches.
func (i *inspection) references(folder string, k types.Kustomization) error {
	for _, reference := range slices.Concat(k.Resources, k.Bases, k.Components) {
		if i.isFolder(folder, reference) {
			continue
		}
		if err := i.checkReadable(folder, reference); err != nil {
			return err
		}
	}
	for _, reference := range yamlFiles(k) {
		if err := i.checkReadable(folder, reference); err != nil {
			return err
		}
	}
	for _, reference := range dataFiles(k) {
		if _, err := i.readReferenced(folder, reference); err != nil {
			return err
		}
	}
	for n, patch := range k.PatchesStrategicMerge {
		// kustomize first tries to load a single-line patch as a path or an address.
		if text := string(patch); !strings.Contains(text, "\n") {
			if err := i.checkReadable(folder, text); err != nil {
				return fmt.Errorf("patchesStrategicMerge[%d]: %w", n, err)
			}
		} else if err := checkYAML([]byte(text)); err != nil {
			return fmt.Errorf("patchesStrategicMerge[%d]: %w", n, err)
		}
	}
	for n, reference := range k.Transformers {
		if err := i.transformer(folder, reference); err != nil {
			return fmt.Errorf("transformers[%d]: %w", n, err)
		}
	}
	for n, patch := range slices.Concat(k.Patches, k.PatchesJson6902) {
		if err := checkYAML([]byte(patch.Patch)); err != nil {
			return fmt.Errorf("patches[%d]: %w", n, err)
		}
	}
	return nil
}

// builtInTransformers lists kustomize's transformers that do not read files.
var builtInTransformers = []string{
	"AnnotationsTransformer", "ImageTagTransformer", "LabelTransformer", "NamespaceTransformer", "PrefixTransformer",
	"ReplicaCountTransformer", "SuffixTransformer",
}

// transformer checks a transformer, which is a file or inline YAML. It accepts only built-in transformers.
func (i *inspection) transformer(folder, reference string) error {
	text := []byte(reference)
	if !strings.Contains(reference, "\n") {
		var err error
		if text, err = i.readReferenced(folder, reference); err != nil {
			return err
		}
	}
	if err := checkSize(text); err != nil {
		return err
	}
	if err := strict.CheckYAML(text, strict.Limits{Documents: 1, ExpandedBytes: maxExpanded}); err != nil {
		return err
	}
	var config map[string]any // a struct would also accept keys with different capitalization
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	kind, _ := config["kind"].(string)
	if config["apiVersion"] != konfig.BuiltinPluginApiVersion || !slices.Contains(builtInTransformers, kind) {
		return fmt.Errorf("plugins are not supported: use the built-in fields of the kustomization, or one of %s",
			strings.Join(builtInTransformers, ", "))
	}
	return nil
}

// yamlFiles returns the paths of all YAML files in a kustomization, except its resources.
func yamlFiles(k types.Kustomization) []string {
	paths := slices.Concat(k.Crds, k.Configurations)
	for _, patch := range slices.Concat(k.Patches, k.PatchesJson6902) {
		paths = append(paths, patch.Path)
	}
	for _, r := range k.Replacements {
		paths = append(paths, r.Path)
	}
	paths = append(paths, k.OpenAPI["path"])
	return slices.DeleteFunc(paths, func(p string) bool { return p == "" })
}

// dataFiles returns the paths of the files for generated ConfigMaps and Secrets.
func dataFiles(k types.Kustomization) []string {
	var sources []types.KvPairSources
	for _, g := range k.ConfigMapGenerator {
		sources = append(sources, g.KvPairSources)
	}
	for _, g := range k.SecretGenerator {
		sources = append(sources, g.KvPairSources)
	}
	var paths []string
	for _, s := range sources {
		paths = append(paths, s.EnvSources...)
		if s.EnvSource != "" {
			paths = append(paths, s.EnvSource)
		}
		for _, from := range s.FileSources {
			if _, source, named := strings.Cut(from, "="); named {
				from = source
			}
			paths = append(paths, from)
		}
	}
	return paths
}

func (i *inspection) isFolder(folder, reference string) bool {
	return isLocal(folder, reference) == nil && i.files.isFolder(path.Join(folder, reference))
}

// readReferenced returns the data in a file that the kustomization in folder refers to.
func (i *inspection) readReferenced(folder, reference string) ([]byte, error) {
	if err := isLocal(folder, reference); err != nil {
		return nil, err
	}
	data, ok := i.files[path.Join(folder, reference)]
	if !ok {
		return nil, fmt.Errorf("%s is not in the content", shortenMessage(reference))
	}
	return data, nil
}

func (i *inspection) checkReadable(folder, reference string) error {
	data, err := i.readReferenced(folder, reference)
	if err != nil {
		return err
	}
	if err := checkYAML(data); err != nil {
		return fmt.Errorf("%s: %w", reference, err)
	}
	return nil
}

// isLocal returns an error if kustomize could treat a reference as an address instead of a path.
//
// Source: kustomize's internal/loader and internal/git. An address has a scheme, or a user before an @, or starts
// with github.com.
func isLocal(folder, reference string) error {
	first, _, _ := strings.Cut(strings.ToLower(reference), "/")
	switch {
	case reference == "":
		return errors.New("a reference is empty")
	case strings.ContainsAny(reference, ":@?") || first == "github.com":
		return fmt.Errorf("%s is an address, but rendering fetches nothing: add the files to the content",
			shortenMessage(reference))
	case path.IsAbs(reference) || path.Join(folder, reference) == ".." ||
		strings.HasPrefix(path.Join(folder, reference), "../"):
		return fmt.Errorf(
			"%s is outside of the content: package the parent folder with a kustomization.yaml that names this folder",
			shortenMessage(reference))
	case !isPlainPath(path.Join(folder, reference)):
		return fmt.Errorf("%s has unsupported characters: use letters, digits, dots, dashes and underscores",
			shortenMessage(reference))
	}
	return nil
}

// checkYAML returns an error for a YAML file or patch that exceeds the limits after its aliases are expanded.
func checkYAML(data []byte) error {
	if err := checkSize(data); err != nil {
		return err
	}
	return strict.CheckYAML(data, strict.Limits{Nodes: maxDocumentNodes, ExpandedBytes: maxExpanded})
}

func checkSize(data []byte) error {
	if len(data) > maxOverlayFileBytes {
		return fmt.Errorf("the document is %d bytes, must be at most %d", len(data), maxOverlayFileBytes)
	}
	return nil
}
