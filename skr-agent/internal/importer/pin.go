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

// pin returns the root of trust for a file if no root is configured: the root at the target, which the first import
// wrote, or else the root in the file. The second result reports that it is the file's.
//
// The agent always verifies with its own pinned root.
func (i Importer) pin(ctx context.Context, file *airgap.File) (trust.Root, bool, error) {
	for version := int64(1); version <= trust.MaxRootHops; version++ {
		data, _, err := store.FetchRoot(ctx, i.To, version)
		if err == nil {
			root, err := trust.ParseRoot(data)
			return root, false, err
		}
		if !i.absent(err) {
			return trust.Root{}, false, fmt.Errorf("root of trust version %d at the target: %w", version, err)
		}
	}
	versions := carriedRoots(file)
	if len(versions) == 0 {
		return trust.Root{}, false,
			malformed("neither the target nor the file has a root of trust: specify one with --trust")
	}
	data, _, err := store.ReadRoot(ctx, file.Repository(bundle.TrustRepository), versions[0])
	if err != nil {
		return trust.Root{}, false, fmt.Errorf("root of trust version %d of the file: %w", versions[0], err)
	}
	root, err := trust.ParseRoot(data)
	if err != nil {
		return trust.Root{}, false, malformed("root of trust version %d of the file: %v", versions[0], err)
	}
	return root, true, nil
}

// carriedRoots returns the versions of the root in a file, in ascending order.
func carriedRoots(file *airgap.File) []int64 {
	var versions []int64
	for _, r := range file.References() {
		repository, tag, _ := strings.Cut(r.Name, ":")
		if number, ok := strings.CutPrefix(tag, bundle.TagRoot); ok && repository == bundle.TrustRepository {
			if version, err := strconv.ParseInt(number, 10, 64); err == nil && version > 0 {
				versions = append(versions, version)
			}
		}
	}
	slices.Sort(versions)
	return versions
}
