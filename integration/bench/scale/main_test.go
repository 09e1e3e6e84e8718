package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// TestMain runs the registry instead of the tests if the benchmark started this binary as its registry process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-serve-registry" {
		main()
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

func TestBenchmarkMeasuresASmallFleet(t *testing.T) {
	suite.Long(t)                  // TestRegistryIsReachableWithBothHostNames is its smoke test
	t.Setenv("TMPDIR", "/var/tmp") // make uses a folder in memory, but the benchmark needs a disk
	c, err := parse([]string{"-n", "100", "-only", "size", "-out", t.TempDir(), "-notifications"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := run(ctx, c.options, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"every Kyma is Ready", "publisher's live heap"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not contain %q:\n%s", want, out.String())
		}
	}
}
