package command

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestImportPrintsProgressEvery64MiB(t *testing.T) {
	var out bytes.Buffer
	advance := printProgress(&out)
	for range 9 {
		advance(16 << 20)
	}
	advance(1 << 30)
	require.Equal(t, "checked and imported 64 MiB\nchecked and imported 128 MiB\nchecked and imported 1168 MiB\n",
		out.String())
}
