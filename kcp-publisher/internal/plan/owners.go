package plan

import (
	"cmp"
	"fmt"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Owners are the Kymas that runtimes belong to, by runtime id: of two Kymas that name one runtime, the older.
type Owners map[string]*v1beta2.Kyma

// NewOwners returns the owners among all Kymas that there are, deleted and skipped ones included.
func NewOwners(kymas []v1beta2.Kyma) Owners {
	owners := make(Owners, len(kymas))
	for i := range kymas {
		kyma := &kymas[i]
		if owner := owners[RuntimeID(kyma)]; owner == nil || byAge(kyma, owner) < 0 {
			owners[RuntimeID(kyma)] = kyma
		}
	}
	return owners
}

// Check refuses a Kyma whose runtime is another Kyma's, or cannot be one: two that publish to one runtime would overwrite each other's
// bundle forever.
func (o Owners) Check(kyma *v1beta2.Kyma) error {
	id := RuntimeID(kyma)
	if err := trust.CheckRuntimeID(id); err != nil {
		return err
	}
	if owner := o[id]; owner != nil && (owner.Namespace != kyma.Namespace || owner.Name != kyma.Name) && byAge(owner, kyma) < 0 {
		return fmt.Errorf("runtime id %s is that of Kyma %s already: change the label %s", id, named(owner), v1beta2.LabelRuntimeID)
	}
	return nil
}

func byAge(a, b *v1beta2.Kyma) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}

func named(kyma *v1beta2.Kyma) string {
	if kyma.Namespace == "" {
		return kyma.Name // of a file
	}
	return kyma.Namespace + "/" + kyma.Name
}
