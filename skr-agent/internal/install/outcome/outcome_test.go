package outcome

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
)

func TestConditionsContainNoSecrets(t *testing.T) {
	const secret = "hunter2Hunter2"
	m := &v1beta2.Manifest{}
	for _, text := range []string{
		`A "db-token" is invalid: spec.password: Invalid value: "` + secret + `": must have 20 characters`,
		`admission webhook "x" denied the request: cannot connect to postgres://a:` + secret + `@db`,
		strings.Repeat("x ", bundle.MaxNoteBytes/2-10) + "postgres://a:" + secret + "@db",
	} {
		failed := Finding{Reason: v1beta2.ReasonApplyFailed, Message: text}
		status := StatusOf(m, Outcome{State: v1beta2.StateError, Resources: &failed, Ready: failed}, time.Now())
		for _, c := range status.Conditions {
			require.NotContains(t, c.Message, secret[:7])
			require.LessOrEqual(t, len(c.Message), bundle.MaxNoteBytes)
		}
		require.NotContains(t, status.LastOperation.Operation, secret)
	}
}
