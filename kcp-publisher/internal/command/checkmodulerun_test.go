package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckModuleRefusesExpressionsThatDoNotCompile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "checks.yaml")
	require.NoError(t, os.WriteFile(name, []byte("checks:\n- name: ready\n  cel: {expression: 'objcts == []'}\n"), 0o600))
	var problems strings.Builder
	require.Equal(t, 1, Execute("v0", []string{"check-module", name}, &strings.Builder{}, &problems))
	require.Contains(t, problems.String(), "checks[0].cel.expression: line 1, column 1: undeclared reference to 'objcts'")
}

func TestUnknownCheckIsAUsageError(t *testing.T) {
	name := filepath.Join(t.TempDir(), "checks.yaml")
	require.NoError(t, os.WriteFile(name, []byte("checks:\n- name: ready\n  cel: {expression: 'true'}\n"), 0o600))
	require.Equal(t, 2,
		Execute("v0", []string{"check-module", name, "--check", "other"}, &strings.Builder{}, &strings.Builder{}))
}
