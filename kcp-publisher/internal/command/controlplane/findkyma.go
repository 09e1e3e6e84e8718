package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/internal/cli"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/plan"
)

// RuntimeArgument is a command's argument that names a runtime: a runtime ID, the name of a Kyma, or kyma/NAME. The
// form kyma/NAME selects a Kyma by its name even if the name is the ID of another runtime. As in kubectl, the kind can
// include the API group.
type RuntimeArgument string

// RuntimeKyma contains the names of a Kyma and its runtime. A Kyma has several runtime IDs if a user has changed its
// runtime ID label.
type RuntimeKyma struct {
	Name string
	IDs  []string
}

// kymaName returns the name in an argument kyma/NAME, or "".
func (a RuntimeArgument) kymaName() string {
	kind, name, _ := strings.Cut(string(a), "/")
	if kind == "kyma" || kind == "kyma."+v1beta2.Group {
		return name
	}
	return ""
}

// Matches reports whether the argument names this runtime.
func (a RuntimeArgument) Matches(kyma string, ids ...string) bool {
	if name := a.kymaName(); name != "" {
		return name == kyma
	}
	return string(a) == kyma || slices.Contains(ids, string(a))
}

// Select returns the indexes of the Kymas that the argument names. It first compares runtime IDs, then Kyma names. If
// the argument is a runtime ID and also the name of another runtime's Kyma, Select returns the Kymas with the ID, and
// an error.
func (a RuntimeArgument) Select(all []RuntimeKyma) ([]int, error) {
	var byID, byName []int
	for i, kyma := range all {
		switch {
		case slices.Contains(kyma.IDs, string(a)):
			byID = append(byID, i)
		case a.Matches(kyma.Name, kyma.IDs...):
			byName = append(byName, i)
		}
	}
	if len(byID) == 0 {
		return byName, nil
	}
	if len(byName) > 0 {
		return byID, cli.Usage(fmt.Errorf("runtime %s is ambiguous: it is Kyma %s's runtime ID, and the name of runtime "+
			"%s's Kyma; specify kyma/%s or kyma/%s", a, all[byID[0]].Name, all[byName[0]].IDs[0], all[byID[0]].Name, a))
	}
	return byID, nil
}

// FindKyma reads the Kyma of a runtime. The parameter runtime has the form of a RuntimeArgument.
func FindKyma(ctx context.Context, reader client.Reader, namespace, runtime string) (*v1beta2.Kyma, error) {
	var kymas v1beta2.KymaList
	if err := reader.List(ctx, &kymas, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Kymas in %s: %w", namespace, err)
	}
	return ChooseKyma(kymas.Items, namespace, runtime)
}

// UnknownRuntime returns the error for an unknown runtime, with the closest known name.
func UnknownRuntime(id, where string, known []string) error {
	return fmt.Errorf("runtime %s: no Kyma in %s has that runtime ID or name%s", id, where, cli.ClosestNames(id, known))
}

// ChooseKyma returns the Kyma that a RuntimeArgument names. If several Kymas have the same runtime ID, it returns the
// Kyma that owns the runtime. If no Kyma owns the runtime, it returns the first of them.
func ChooseKyma(kymas []v1beta2.Kyma, namespace, runtime string) (*v1beta2.Kyma, error) {
	all := make([]RuntimeKyma, len(kymas))
	for i := range kymas {
		kyma := &kymas[i]
		all[i] = RuntimeKyma{kyma.Name, []string{plan.RuntimeID(kyma), plan.ClaimedRuntimeID(kyma)}}
	}
	selected, err := RuntimeArgument(runtime).Select(all)
	if err != nil {
		return nil, err
	}
	if len(selected) == 0 {
		var names []string
		for _, kyma := range all {
			names = append(names, kyma.IDs[0], kyma.Name)
		}
		return nil, UnknownRuntime(cmp.Or(RuntimeArgument(runtime).kymaName(), runtime), "namespace "+namespace, names)
	}
	if owner := plan.NewOwners(kymas)[runtime]; owner != nil {
		return owner, nil
	}
	return &kymas[selected[0]], nil
}
