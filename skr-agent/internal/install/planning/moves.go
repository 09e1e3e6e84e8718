package planning

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/content"
	"github.com/kyma-pull/kyma-pull/internal/guard"
	"github.com/kyma-pull/kyma-pull/skr-agent/internal/install/object"
)

// Moves maps objects to the moves that their annotations declare. It contains only objects that move.
type Moves map[guard.Key]content.Move

// Modules returns the names of the other modules in the moves, sorted.
func (m Moves) Modules() []string {
	names := map[string]bool{}
	for _, move := range m {
		names[move.To+move.From] = true // only one is set
	}
	return slices.Sorted(maps.Keys(names))
}

// Claims contains a module's objects and the moves that its content declares.
type Claims struct {
	Module  string
	Objects object.Keys
	Moves   Moves
}

// yields reports whether a module leaves an object to another module that also contains it. A module leaves an object
// only if its own content names the other module, so no module can take an object without the owner's consent. If the
// declarations contradict each other, no module leaves the object, and the later module gets a conflict.
func (c Claims) yields(k guard.Key, other Claims) bool {
	own, others := c.Moves[k], other.Moves[k]
	switch {
	case !other.Objects.Has(k) || others.To == c.Module:
		return false
	case own.To == other.Module:
		return true
	case own.From == other.Module:
		return others.From != c.Module
	}
	return false
}

// Yields returns the objects that a module leaves to other modules. The value is the name of the other module.
func Yields(mine Claims, others []Claims) map[guard.Key]string {
	yielded := map[guard.Key]string{}
	for k := range mine.Moves {
		for _, other := range others {
			if mine.yields(k, other) {
				yielded[k] = other.Module
			}
		}
	}
	return yielded
}

// Claims returns the objects in a module's content, including objects that it leaves to other modules.
func (p *Plan) Claims(module string) Claims {
	c := Claims{Module: module, Objects: object.KeysOf(p.Inventory), Moves: p.Moves}
	for k := range p.Yielded {
		c.Objects[k] = struct{}{}
	}
	if p.DefaultCR != nil {
		c.Objects[guard.KeyOf(p.DefaultCR)] = struct{}{}
	}
	return c
}

// Yield removes from the plan the objects that other modules own. The plan prunes them from the module's inventory, as
// if the content did not contain them.
func (p *Plan) Yield(yielded map[guard.Key]string, inventory []v1beta2.Resource) {
	if len(yielded) == 0 {
		return
	}
	left := objectsIn(yielded)
	p.omit(left)
	p.Prune = slices.Concat(RemovalStages(object.Union(p.Prune, object.Among(inventory, left)))...)
	if p.Yielded == nil {
		p.Yielded = map[guard.Key]string{}
	}
	maps.Copy(p.Yielded, yielded)
}

// KeepTaken removes the objects that the plan would take over from other Manifests, so these Manifests keep them.
func (p *Plan) KeepTaken() {
	p.omit(objectsIn(p.Takes))
	p.Takes = nil
}

func objectsIn(modules map[guard.Key]string) object.Keys {
	keys := object.Keys{}
	for k := range modules {
		keys[k] = struct{}{}
	}
	return keys
}

func (p *Plan) omit(omitted object.Keys) {
	for n, stage := range p.Stages {
		p.Stages[n] = slices.DeleteFunc(slices.Clone(stage), func(o *unstructured.Unstructured) bool {
			return omitted.Has(guard.KeyOf(o))
		})
	}
	p.Inventory = object.Without(p.Inventory, omitted)
}

func (p *Plan) addMove(o *unstructured.Unstructured) {
	move, err := content.MoveOf(o)
	if err != nil || move == (content.Move{}) {
		return // content.Check returned the error
	}
	if p.Moves == nil {
		p.Moves = Moves{}
	}
	p.Moves[guard.KeyOf(o)] = move
}

// PendingMoves describes the moves that wait for another module's version.
func (p *Plan) PendingMoves() []string {
	var texts []string
	for k, move := range p.Moves {
		owner := p.Yielded[k]
		switch {
		case move.To != "" && owner == "":
			texts = append(texts,
				fmt.Sprintf("%s moves to module %s once that module's version contains the object", k, move.To))
		case move.From != "" && owner != "":
			texts = append(texts,
				fmt.Sprintf("%s moves from module %s once that module's version releases the object", k, move.From))
		}
	}
	slices.Sort(texts)
	return texts
}
