package render

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
)

// isPlainPath reports whether kustomize's in-memory file system supports a path. Files with other paths are ignored.
func isPlainPath(name string) bool {
	return plainPath.MatchString(name) && !strings.Contains(path.Clean(name), "..")
}

// tree maps paths to an overlay's files.
type tree map[string][]byte

// root returns the folder of the kustomization to build. asked is the requested folder, or empty for the
// top level.
func (t tree) root(asked string) (string, error) {
	folder := path.Clean("./" + asked)
	if asked != "" && (path.IsAbs(asked) || strings.HasPrefix(folder, "..")) {
		return "", fmt.Errorf("path %q is outside of the content: use a folder inside the content", asked)
	}
	if _, err := t.kustomizationIn(folder); err == nil {
		return folder, nil
	} else if !errors.Is(err, errNone) {
		return "", err
	}
	var candidates []string
	for name := range t {
		if slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name)) {
			candidates = append(candidates, path.Dir(name))
		}
	}
	if len(candidates) == 0 {
		return "", errors.New("content has no kustomization.yaml")
	}
	slices.Sort(candidates)
	if len(candidates) > 5 {
		candidates = append(candidates[:5], "more")
	}
	if folder == "." {
		folder = "the top level of the content"
	}
	return "", fmt.Errorf("no kustomization.yaml at %s, only in %s", folder, strings.Join(candidates, ", "))
}

func (t tree) kustomizationIn(folder string) (string, error) {
	var found []string
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		if _, ok := t[path.Join(folder, name)]; ok {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%s: %w", folder, errNone)
	case 1:
		return path.Join(folder, found[0]), nil
	}
	return "", fmt.Errorf("%s contains %s: keep one of these files", folder, strings.Join(found, ", "))
}

func (t tree) isFolder(name string) bool {
	if name == "." {
		return true
	}
	for other := range t {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

var plainPath = regexp.MustCompile(`^[a-zA-Z0-9._/-]+$`)

var errNone = errors.New("no kustomization.yaml")
