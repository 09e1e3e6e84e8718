package importer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// choosePinnedRoot returns the root of trust for an import without a configured root. It is the oldest root at the
// target. If the target has no root, it is the oldest root in the file, and the second result is true.
//
// Agents do not use this root. They always verify with their own pinned root.
func (i Importer) choosePinnedRoot(ctx context.Context, file *airgap.File) (trust.Root, bool, error) {
	target, err := i.openRepository(ctx, bundle.TrustRepository)
	if err != nil {
		return trust.Root{}, false, fmt.Errorf("read the root of trust at the target: %w", err)
	}
	if target != nil {
		if root, err := oldestRoot(ctx, target, "at the target"); err != nil || root.Version > 0 {
			return root, false, err
		}
	}
	root, err := oldestRoot(ctx, file.Repository(bundle.TrustRepository), "in the file")
	if err == nil && root.Version == 0 {
		err = refuseMalformed("no root of trust at the target or in the file: specify one with --trust")
	}
	return root, true, err
}

// oldestRoot reads the oldest root of trust in a repository, or returns the zero Root. location describes the
// repository in errors.
func oldestRoot(ctx context.Context, repository store.Reader, location string) (trust.Root, error) {
	tags, err := store.Tags(ctx, repository)
	if err != nil {
		return trust.Root{}, fmt.Errorf("read the root of trust %s: %w", location, err)
	}
	versions := rootVersions(tags)
	if len(versions) == 0 {
		return trust.Root{}, nil
	}
	data, _, err := store.ReadRoot(ctx, repository, versions[0])
	if err != nil {
		return trust.Root{}, fmt.Errorf("read root of trust version %d %s: %w", versions[0], location, err)
	}
	root, err := trust.ParseRoot(data)
	if err != nil {
		return trust.Root{}, refuseMalformed("root of trust version %d %s: %v", versions[0], location, err)
	}
	return root, nil
}

// rootVersions returns the sorted versions of the root of trust in a repository's tags.
func rootVersions(tags []string) []int64 {
	var versions []int64
	for _, tag := range tags {
		number, ok := strings.CutPrefix(tag, bundle.TagRoot)
		if version, err := strconv.ParseInt(number, 10, 64); ok && err == nil && bundle.RootTag(version) == tag &&
			version > 0 {
			versions = append(versions, version)
		}
	}
	slices.Sort(versions)
	return versions
}
