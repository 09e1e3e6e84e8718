package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The test is necessary because `go test -bench` does not fail for an unknown benchmark.
func TestMeasuredBenchmarksExist(t *testing.T) {
	for b := range durations {
		folder, function := b.parts()
		files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(data), "\nfunc "+function+"(b *testing.B)")
		}
		if !found {
			t.Errorf("folder %s has no function %s", folder, function)
		}
	}
}
