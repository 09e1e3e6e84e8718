package control

import (
	"maps"
	"sync"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// states counts runtimes and their modules by state, so that no metric is labeled with a runtime.
type states struct {
	mu sync.Mutex // guards of
	of map[string]counted
}

// counted is what one Kyma adds to the metrics.
type counted struct {
	state   v1beta2.State
	modules map[string]v1beta2.State
}

// otherModules stands for modules that the catalog does not have: their names are a runtime's own word, of which there may be any number.
const otherModules = "(other)"

// set counts a Kyma as its status says; known reports whether the catalog has a module.
func (s *states) set(kyma string, status v1beta2.KymaStatus, known func(module string) bool) {
	next := counted{state: status.State, modules: make(map[string]v1beta2.State, len(status.Modules))}
	for _, m := range status.Modules {
		name := m.Name
		if !known(name) {
			name = otherModules
		}
		next.modules[name] = m.State
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, counts := s.of[kyma]
	if counts && before.state == next.state && maps.Equal(before.modules, next.modules) {
		return
	}
	if counts {
		before.add(-1)
	}
	s.of[kyma] = next
	next.add(1)
}

func (s *states) forget(kyma string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, counts := s.of[kyma]; counts {
		before.add(-1)
		delete(s.of, kyma)
	}
}

func (c counted) add(n float64) {
	runtimes.WithLabelValues(string(c.state)).Add(n)
	for module, state := range c.modules {
		moduleStates.WithLabelValues(module, string(state)).Add(n)
	}
}
