package assemble

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kyma-pull/kyma-pull/internal/content/contenttest"
	"github.com/kyma-pull/kyma-pull/internal/render"
)

// TestAgentRefusesForbiddenContent in package planning checks the same content for agents.
func TestCreateAcceptsTheSameContentsAsAgents(t *testing.T) {
	for _, c := range contenttest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			files, err := Read(folder(t, map[string]string{"a.yaml": c.YAML}))
			require.NoError(t, err)
			_, err = files.Check(t.Context(), "mailer", inProcess)
			if c.Refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.Refused)
		})
	}
}

func TestCreateRefusesFieldsWithWrongTypes(t *testing.T) {
	files, err := Read(folder(t, map[string]string{
		"a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: mailer}\nspec: {replicas: two}\n",
	}))
	require.NoError(t, err)
	_, err = files.Check(t.Context(), "mailer", inProcess)
	require.ErrorIs(t, err, render.ErrWrongType)
	require.ErrorContains(t, err, "Deployment kyma-system/mailer: field spec.replicas must be an integer, got string")
}
