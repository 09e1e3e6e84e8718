package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// HeldRemoval is the removal of a module from one or more runtimes. The removal waits for approval.
type HeldRemoval struct {
	// ID is a hash of the module and all affected runtimes. If the removal later affects more runtimes, its ID changes,
	// so that an approval of the previous ID does not cover the additional runtimes.
	ID string
	// Module is empty if all modules are removed because the Kymas are deleted.
	Module, Reason string
	// Since is the time at which the first affected runtime started to wait for the approval.
	Since time.Time
	// Kymas are the affected runtimes' Kymas, sorted by namespace and name.
	Kymas []*v1beta2.Kyma
}

// HeldRemovals returns the removals that wait for approval, sorted by module and reason.
func HeldRemovals(kymas []v1beta2.Kyma) []HeldRemoval {
	var all []HeldRemoval
	sums := map[int][]string{}
	for i := range kymas {
		kyma := &kymas[i]
		if kyma.Status.Runtime == nil {
			continue
		}
		for _, d := range kyma.Status.Runtime.Removals {
			if d.Decision != v1beta2.RemovalHeld || isApproved(kyma, d) {
				continue
			}
			at := slices.IndexFunc(all, func(h HeldRemoval) bool {
				return h.Module == d.Module && h.Reason == d.Reason
			})
			if at < 0 {
				at = len(all)
				all = append(all, HeldRemoval{Module: d.Module, Reason: d.Reason, Since: d.Time.Time})
			}
			h := &all[at]
			if d.Time.Time.Before(h.Since) {
				h.Since = d.Time.Time
			}
			h.Kymas = append(h.Kymas, kyma)
			sums[at] = append(sums[at], kyma.Namespace+"/"+kyma.Name+" "+approvalText(d))
		}
	}
	for at := range all {
		slices.Sort(sums[at])
		sum := sha256.Sum256([]byte(strings.Join(sums[at], "\n")))
		all[at].ID = hex.EncodeToString(sum[:5])
		slices.SortFunc(all[at].Kymas, byNamespaceAndName)
	}
	slices.SortFunc(all, func(a, b HeldRemoval) int {
		return strings.Compare(a.Module+"\x00"+a.Reason, b.Module+"\x00"+b.Reason)
	})
	return all
}

func byNamespaceAndName(a, b *v1beta2.Kyma) int {
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}

// Approve adds an approval for a module's waiting removal to the Kyma's annotations. It reports whether the annotations
// changed.
func Approve(kyma *v1beta2.Kyma, module string) bool {
	if kyma.Status.Runtime == nil {
		return false
	}
	var approved []string
	for _, d := range kyma.Status.Runtime.Removals {
		if d.Decision == v1beta2.RemovalHeld && (d.Module == module || isApproved(kyma, d)) {
			approved = append(approved, approvalText(d))
		}
	}
	next := strings.Join(approved, ",")
	if next == kyma.Annotations[v1beta2.AnnotationApprovedRemovals] {
		return false
	}
	if kyma.Annotations == nil {
		kyma.Annotations = map[string]string{}
	}
	kyma.Annotations[v1beta2.AnnotationApprovedRemovals] = next
	return true
}
