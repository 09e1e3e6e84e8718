package resident

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyPagesThatAreAsInTheFileAreGivenBack(t *testing.T) {
	const smaps = `00400000-01a00000 r-xp 00000000 fe:01 123                        /skr-agent
Size:              22528 kB
Rss:               20000 kB
Anonymous:             0 kB
Swap:                  0 kB
01a00000-03000000 r--p 01600000 fe:01 123                                /skr-agent
Rss:               20000 kB
Anonymous:             4 kB
Swap:                  0 kB
03000000-03100000 rw-p 02c00000 fe:01 123                                /skr-agent
Anonymous:             0 kB
Swap:                  0 kB
03100000-03200000 r--p 02c00000 fe:01 123                                /skr-agent
Anonymous:             0 kB
Swap:                  0 kB
03200000-03300000 r--s 02c00000 fe:01 123                                /skr-agent
Anonymous:             0 kB
Swap:                  0 kB
03300000-03400000 r--p 02c00000 fe:01 123                                /skr-agent
Anonymous:             0 kB
Swap:                  4 kB
03400000-03500000 r--p 02c00000 fe:01 123                                /skr-agent
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:01 9                          /lib/other/skr-agent
Anonymous:             0 kB
Swap:                  0 kB
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
Swap:                  0 kB
`
	require.Equal(t, []mapping{{0x400000, 0x1a00000}, {0x3100000, 0x3200000}}, unchanged([]byte(smaps), "/skr-agent"))
}

func TestTheProgramRunsOnAfterItsPagesWereGivenBack(t *testing.T) {
	for range 3 {
		giveBackProgram()
		require.Equal(t, "as before", strings.Join([]string{"as", "before"}, " "))
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	file, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	require.NotEmpty(t, unchanged(smaps, file), "the test's own program has such pages")
}
