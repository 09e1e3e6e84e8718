package record

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// Version 0.1.0 agents kept the record in these annotations. The first change to a record replaces them. Until then, an
// agent that is rolled back to 0.1.0 still finds them.
const (
	formerApplied          = "kyma-pull.dev/applied"
	formerAppliedSignature = "kyma-pull.dev/applied-signature"
	formerRecreated        = "kyma-pull.dev/recreated"
	formerCompletedJobs    = "kyma-pull.dev/completed-jobs"
	formerInherited        = "kyma-pull.dev/inherited"
	formerRemoval          = "kyma-pull.dev/removal"
	formerRestoring        = "kyma-pull.dev/restoring"
	formerReleased         = "kyma-pull.dev/released"
	// formerSignaturePrefix is the prefix of the text that formerAppliedSignature signs.
	formerSignaturePrefix = "kyma-pull applied version v1\n"
)

var former = []string{
	formerApplied, formerAppliedSignature, formerRecreated, formerCompletedJobs, formerInherited, formerRemoval,
	formerRestoring, formerReleased,
}

// readFormer returns the record in version 0.1.0's annotations. Only the applied version has a signature. The inherited
// objects are accepted only together with a signed applied version, because any client could otherwise write them.
// readFormer ignores a removal. If a bundle still requests the removal, the agent records it again.
func (b Store) readFormer(m *v1beta2.Manifest) Record {
	r := readFormerUnverified(m)
	r.Removal = ""
	if r.Applied != nil {
		r.Applied.Unconfirmed = !b.verify(formerSignaturePrefix, m, m.Annotations[formerApplied],
			m.Annotations[formerAppliedSignature])
	}
	if r.Applied == nil || r.Applied.Unconfirmed {
		r.Inherited = ""
	}
	return r
}

func readFormerUnverified(m *v1beta2.Manifest) Record {
	r := Record{
		Inherited: m.Annotations[formerInherited],
		Restoring: m.Annotations[formerRestoring] == v1beta2.True,
		Released:  m.Annotations[formerReleased] == v1beta2.True,
	}
	if m.Annotations[formerRemoval] == v1beta2.True {
		r.Removal = m.UID
	}
	var applied AppliedVersion
	if text := m.Annotations[formerApplied]; text != "" && json.Unmarshal([]byte(text), &applied) == nil {
		r.Applied = &applied
	}
	if words := strings.Fields(m.Annotations[formerRecreated]); len(words) > 0 {
		r.Recreated = &Recreated{Version: words[0]}
		for _, uid := range words[1:] {
			r.Recreated.Objects = append(r.Recreated.Objects, types.UID(uid))
		}
	}
	if words := strings.Fields(m.Annotations[formerCompletedJobs]); len(words) > 0 {
		r.CompletedJobs = &CompletedJobs{Version: words[0], Jobs: slices.Clone(words[1:])}
	}
	return r
}

func dropFormer(m *v1beta2.Manifest) {
	for _, annotation := range former {
		delete(m.Annotations, annotation)
	}
}
