package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestCommandsPrintExternalTextWithPrintf(t *testing.T) {
	for _, pattern := range []string{
		"*.go", "*/*.go", "../takeover/command/*.go", "../../../skr-agent/internal/command/*.go",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: got %d files, error %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(file, "_test.go") && regexp.MustCompile(`(?m)^\s*fmt\.Fprintf\(`).Match(text) {
				t.Errorf("%s: use cli.Printf instead of fmt.Fprintf, so that arguments cannot add lines", file)
			}
		}
	}
}
