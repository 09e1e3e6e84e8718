package logonce

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnchangedTextIsLoggedOnce(t *testing.T) {
	var memo Memo
	require.False(t, memo.Update("registry", ""), "an empty text is not a change at first")
	require.True(t, memo.Update("registry", "down"))
	require.False(t, memo.Update("registry", "down"))
	require.True(t, memo.Update("certificate", "down"), "another subject must be logged")
	require.True(t, memo.Update("registry", "slow"))
	require.True(t, memo.Update("registry", ""))
	require.True(t, memo.Update("registry", "slow"), "a text that occurs again must be logged")
}

func TestOnlyNewAndChangedTextsAreLogged(t *testing.T) {
	var memo Memo
	require.Equal(t, []string{"keda", "nats"}, memo.Replace(map[string]string{"nats": "waits", "keda": "waits"}))
	require.Equal(t, []string{"keda"}, memo.Replace(map[string]string{"nats": "waits", "keda": "waits longer"}))
	require.Empty(t, memo.Replace(map[string]string{"keda": "waits longer"}))
	require.Equal(t, []string{"nats"}, memo.Replace(map[string]string{"nats": "waits"}),
		"a subject that was removed and returns is new")
}
