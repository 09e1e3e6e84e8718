package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/refusal"
)

// missingBlobs lists blobs that exist neither in the file nor at the target, usually because an earlier file was not
// imported.
type missingBlobs struct{ lines []string }

const maxMissingLines = 20

func (l *missingBlobs) add(
	runtime, name string, d ocispec.Descriptor, previous *bundle.Position, last bundle.Accepted,
) {
	line := fmt.Sprintf("runtime %s: %s, %s of %d bytes", runtime, name, d.Digest, d.Size)
	if len(l.lines) == 0 || !strings.HasPrefix(l.lines[len(l.lines)-1], "runtime "+runtime+":") {
		line += describeHistory(previous, last)
	}
	l.lines = append(l.lines, line)
}

// describeHistory describes the bundle at the target. If the new bundle expects a different predecessor, it also
// describes the expected predecessor.
func describeHistory(previous *bundle.Position, last bundle.Accepted) string {
	there := "the target has no bundle"
	if last.Sequence > 0 {
		there = fmt.Sprintf("the target has bundle %d", last.Sequence)
	}
	if previous == nil || previous.Sequence == last.Sequence {
		return " (" + there + ")"
	}
	return fmt.Sprintf(" (%s, but the predecessor of this bundle is %d)", there, previous.Sequence)
}

// asError returns an error that lists the missing blobs, or nil if no blob is missing.
func (l *missingBlobs) asError() error {
	if len(l.lines) == 0 {
		return nil
	}
	shown, more := l.lines, ""
	if len(shown) > maxMissingLines {
		shown, more = shown[:maxMissingLines], fmt.Sprintf("\n  and %d more", len(l.lines)-maxMissingLines)
	}
	return &refusal.Error{Reason: refusal.Incomplete, Detail: fmt.Sprintf(
		"content is missing in the file and at the target: import the earlier files first, or export again without "+
			"--since; missing:\n  %s%s",
		strings.Join(shown, "\n  "),
		more,
	)}
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
