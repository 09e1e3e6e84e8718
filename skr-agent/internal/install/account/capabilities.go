package account

import (
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/kyma-pull/kyma-pull/internal/render"
)

// lastKinds contains the kinds of each group version in the last successful discovery.
type lastKinds struct {
	mu    sync.Mutex
	kinds map[string][]string
}

// Capabilities returns the version and kinds of the API server, which Helm charts can query.
//
// If the server of an aggregated API is not available, Capabilities uses the kinds of the last discovery. After a
// restart of the agent, it returns the group version without kinds. Without them, a chart would render fewer objects
// during the outage, and the agent would delete the other objects.
func (a *Account) Capabilities() (render.Capabilities, error) {
	version, err := a.discovery.ServerVersion()
	if err != nil {
		return render.Capabilities{}, fmt.Errorf("read the Kubernetes version: %w", err)
	}
	_, lists, err := a.discovery.ServerGroupsAndResources()
	unavailable, isPartial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && (!isPartial || len(lists) == 0) {
		return render.Capabilities{}, fmt.Errorf("discover the resources in the cluster: %w", err)
	}
	capabilities := render.Capabilities{Version: version.GitVersion, APIVersions: a.last.update(lists)}
	for group := range unavailable {
		capabilities.APIVersions = append(capabilities.APIVersions, group.String())
		capabilities.APIVersions = append(capabilities.APIVersions, a.last.of(group.String())...)
	}
	slices.Sort(capabilities.APIVersions)
	capabilities.APIVersions = slices.Compact(capabilities.APIVersions)
	return capabilities, nil
}

// update records the kinds in the lists, and returns the names of all group versions and kinds in them.
func (l *lastKinds) update(lists []*metav1.APIResourceList) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kinds == nil {
		l.kinds = map[string][]string{}
	}
	for _, list := range lists {
		var kinds []string
		for _, r := range list.APIResources {
			kinds = append(kinds, list.GroupVersion+"/"+r.Kind)
		}
		l.kinds[list.GroupVersion] = kinds
		all = append(append(all, list.GroupVersion), kinds...)
	}
	return all
}

func (l *lastKinds) of(groupVersion string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kinds[groupVersion]
}
