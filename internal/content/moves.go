package content

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/guard"
)

// Move is the move of an object to or from another module.
type Move struct {
	// To is the module that takes the object over, and From is the module that owned it before. Only one is set.
	To, From string
}

// MoveOf returns the move that an object's moves-to or moves-from annotation declares. It returns an empty Move if the
// object has neither annotation.
func MoveOf(o *unstructured.Unstructured) (Move, error) {
	to, movesTo := o.GetAnnotations()[v1beta2.AnnotationMovesTo]
	from, movesFrom := o.GetAnnotations()[v1beta2.AnnotationMovesFrom]
	if movesTo && movesFrom {
		return Move{}, fmt.Errorf("%s has the annotations %s and %s: remove one of them", guard.KeyOf(o),
			v1beta2.AnnotationMovesTo, v1beta2.AnnotationMovesFrom)
	}
	for _, name := range []string{v1beta2.AnnotationMovesTo, v1beta2.AnnotationMovesFrom} {
		if module, isSet := o.GetAnnotations()[name]; isSet && len(validation.IsQualifiedName(module)) > 0 {
			return Move{}, fmt.Errorf("%s: annotation %s: %q is not a module name", guard.KeyOf(o), name, module)
		}
	}
	return Move{To: to, From: from}, nil
}
