package objects

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The messages have the formats of k8s.io/apiserver v0.37.
func TestDenierIsReadFromTheStartOfTheMessage(t *testing.T) {
	for message, want := range map[string]Denier{
		`admission webhook "a.example.org" denied the request: policy 'b' denied request: no`: {Name: "a.example.org"},
		`configmaps "x" is forbidden: ValidatingAdmissionPolicy 'strict' with binding 'all' denied request: ` +
			`admission webhook "a" denied the request`: {Name: "strict"},
		`configmaps "x" is forbidden: policy 'strict' with binding 'all' denied request: no`: {Name: "strict"},
		`configmaps "x" is forbidden: policy "strict" denied request: no`:                    {Name: "strict"},
		`configmaps "x" is forbidden: expression 'object.a' resulted in error: none`:         {IsMatchCondition: true},
		`pods "x" is forbidden: exceeded quota: few, requested: pods=1`:                      {},
	} {
		require.Equal(t, want, DenierOf(errors.New(message)), message)
	}
	require.Zero(t, DenierOf(nil))
}
