package airgap

import "testing"

func TestUnpackedSizeOfACompressedFileIsLimited(t *testing.T) {
	for name, c := range map[string]struct{ size, want int64 }{
		"file of 1 byte": {1, 64 << 20},
		"file of 1 MiB":  {1 << 20, 100 << 20},
		"file of 40 MiB": {40 << 20, 4000 << 20},
		"file of 1 GiB":  {1 << 30, 8 << 30},
		"file of 99 GiB": {99 << 30, 400 << 30},
	} {
		if got := maxUnpacked(c.size); got != c.want {
			t.Errorf("%s: got limit %d, want %d", name, got, c.want)
		}
	}
}
