package render

import (
	"archive/tar"
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireRefusedWithin checks that render returns an error and allocates at most maxBytes in total.
func requireRefusedWithin(t *testing.T, maxBytes int64, want string, render func() error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := render()
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, want)
	allocated := int64(after.TotalAlloc - before.TotalAlloc)
	require.Less(t, allocated, maxBytes, "too much memory was allocated")
}

func TestLimitsApplyToAllDocumentsTogether(t *testing.T) {
	list := `{"kind":"List","items":[` + strings.Repeat("{},", 240_000-1) + "{}]}\n"
	var values, aliases strings.Builder
	for i := range 24 {
		fmt.Fprintf(&values, `{"apiVersion":"v1","kind":"A","metadata":{"name":"a%d"},"a":[%s{}]}`, i,
			strings.Repeat(`{"a":0},`, 160_000))
	}
	for i := range 20 {
		fmt.Fprintf(&aliases, "---\napiVersion: v1\nkind: A\nmetadata: {name: a%d}\na: &a %s\nb: [%s]\n", i,
			strings.Repeat("x", 1<<20), strings.Repeat("*a,", 6))
	}
	for name, c := range map[string]struct {
		content, want string
		maxBytes      int64
	}{
		"objects": {strings.Repeat(list, 40), "document 1, items[2000]: more than 2000 objects", 256 << 20},
		"values":  {values.String(), "the documents have more than 2000000 values in total", 1 << 30},
		"bytes": {
			aliases.String(), "the documents have more than 134217728 bytes in total after expanding aliases", 1 << 30,
		},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefusedWithin(t, c.maxBytes, c.want, func() error {
				_, err := Render(Input{Content: []byte(c.content)})
				return err
			})
		})
	}
}

func TestDefaultCRIsLimitedAfterUnpacking(t *testing.T) {
	list := `{"kind":"List","items":[` + strings.Repeat("{},", 240_000-1) + "{}]}\n"
	padded := zipped(t, []byte(strings.Repeat(list, 40)))
	padded = append(padded, make([]byte, MaxDefaultCRBytes-len(padded))...)
	// The standard library does not write sparse files.
	sparse := archive(t, member{tar.Header{
		Name: "GNUSparseFile.0/x", Typeflag: tar.TypeReg, PAXRecords: map[string]string{
			"GNX.sparse.major": "1", "GNX.sparse.minor": "0", "GNX.sparse.name": "x.yaml",
			"GNX.sparse.realsize": "90000000",
		},
	}, "1\n90000000\n0\n" + strings.Repeat("\x00", 499)})
	sparse = bytes.ReplaceAll(sparse, []byte(" GNX.sparse"), []byte(" GNU.sparse"))
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"gzip with padding":    {padded, "unpack to more than 1048576"},
		"sparse file in a tar": {sparse, "the files are more than 1048576 bytes in total"},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefusedWithin(t, 16<<20, c.want, func() error {
				_, err := DefaultCR(c.content)
				return err
			})
		})
	}
}
