package plan

import (
	"cmp"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle/reason"
	"github.com/kyma-pull/kyma-pull/bundle/trust"
)

// Owners are the Kymas that runtimes belong to, by runtime id: of two Kymas that name one runtime, the one that the
// runtime has enrolled with, else the one that was published to, else the older.
type Owners map[string]*v1beta2.Kyma

// NewOwners returns the owners among all Kymas that there are, deleted and skipped ones included.
func NewOwners(kymas []v1beta2.Kyma) Owners {
	owners := make(Owners, len(kymas))
	for i := range kymas {
		kyma := &kymas[i]
		if owner := owners[Claimed(kyma)]; owner == nil || byClaim(kyma, owner) < 0 {
			owners[Claimed(kyma)] = kyma
		}
	}
	return owners
}

// Check refuses a Kyma whose runtime is another Kyma's, or cannot be one: two that publish to one runtime would
// overwrite each other's bundle forever. It also refuses one that began with another runtime: that one's key and
// Secrets are not the new one's.
func (o Owners) Check(kyma *v1beta2.Kyma) error {
	id := RuntimeID(kyma)
	if err := trust.CheckRuntimeID(id); err != nil {
		return reason.With(reason.RuntimeIDInvalid, err)
	}
	if of := Claimed(kyma); of != id {
		return reason.Errorf(reason.RuntimeIDChanged, "its runtime is %s, and the label %s says %s: set it back, or delete the Kyma, which removes all modules from %s, and create one for %s", of, v1beta2.LabelRuntimeID, id, of, id)
	}
	if owner := o[id]; owner != nil && (owner.Namespace != kyma.Namespace || owner.Name != kyma.Name) && byClaim(owner, kyma) < 0 {
		return reason.Errorf(reason.DuplicateRuntimeID, "runtime id %s is that of Kyma %s already: change the label %s", id, named(owner), v1beta2.LabelRuntimeID)
	}
	return nil
}

// Claimed returns the id of the runtime that a Kyma can own: the one that it began with, whatever its label says since.
// Who may edit a Kyma could else wait for the runtime of another one.
func Claimed(kyma *v1beta2.Kyma) string {
	if s := kyma.Status.Runtime; s != nil && s.ID != "" {
		return s.ID
	}
	return RuntimeID(kyma)
}

// Begin notes in the status of a Kyma which runtime it is about.
func Begin(kyma *v1beta2.Kyma) {
	if kyma.Status.Runtime == nil {
		kyma.Status.Runtime = &v1beta2.RuntimeStatus{}
	}
	if s := kyma.Status.Runtime; s.ID == "" {
		s.ID = RuntimeID(kyma)
	}
}

// claim returns how much is known to connect a Kyma with the runtime that it names.
func claim(kyma *v1beta2.Kyma) int {
	s := kyma.Status.Runtime
	switch {
	case s == nil:
		return 0
	case s.Key != nil:
		return 2
	case s.Published != nil:
		return 1
	}
	return 0
}

func byClaim(a, b *v1beta2.Kyma) int { return cmp.Or(cmp.Compare(claim(b), claim(a)), byAge(a, b)) }

func byAge(a, b *v1beta2.Kyma) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Namespace, b.Namespace))
}

func named(kyma *v1beta2.Kyma) string {
	if kyma.Namespace == "" {
		return kyma.Name // of a file
	}
	return kyma.Namespace + "/" + kyma.Name
}
