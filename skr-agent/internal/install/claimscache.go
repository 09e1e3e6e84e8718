package install

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/planning"
)

// claimsCache contains the objects and declared moves in the content of each Manifest's requested version.
type claimsCache struct {
	mu     sync.Mutex // guards byName
	byName map[types.NamespacedName]cachedClaims
}

type cachedClaims struct {
	input string
	planning.Claims
}

func newClaimsCache() *claimsCache {
	return &claimsCache{byName: map[types.NamespacedName]cachedClaims{}}
}

// keep records a Manifest's claims. It keeps the objects only if this call or an earlier call for the Manifest needs
// them.
func (c *claimsCache) keep(m *v1beta2.Manifest, input string, claims planning.Claims, needsObjects bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := client.ObjectKeyFromObject(m)
	if !needsObjects && c.byName[name].Objects == nil {
		claims.Objects = nil
	}
	c.byName[name] = cachedClaims{input, claims}
}

// get returns a Manifest's recorded claims. It returns false if they are unknown. The objects can be nil.
func (c *claimsCache) get(m *v1beta2.Manifest, input string) (planning.Claims, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.byName[client.ObjectKeyFromObject(m)]
	return found.Claims, found.input == input
}

func (c *claimsCache) forget(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byName, name)
}

// movesWith returns requests for the Manifests whose content moves objects to or from one module. o is the Manifest of
// this module.
func (c *claimsCache) movesWith(_ context.Context, o client.Object) []reconcile.Request {
	m, ok := o.(*v1beta2.Manifest)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []reconcile.Request
	for name, known := range c.byName {
		if slices.Contains(known.Moves.Modules(), m.Module()) {
			all = append(all, reconcile.Request{NamespacedName: name})
		}
	}
	return all
}
