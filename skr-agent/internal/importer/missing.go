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

// missingBlobs collects blobs that neither the file nor the target has. The file was exported for a target with more
// imports.
type missingBlobs struct{ lines []string }

const maxLacking = 20

func (l *missingBlobs) add(
	runtime, what string, d ocispec.Descriptor, previous *bundle.Position, last bundle.Accepted,
) {
	line := fmt.Sprintf("runtime %s: %s, %s of %d bytes", runtime, what, d.Digest, d.Size)
	if len(l.lines) == 0 || !strings.HasPrefix(l.lines[len(l.lines)-1], "runtime "+runtime+":") {
		line += history(previous, last)
	}
	l.lines = append(l.lines, line)
}

// history describes the bundle at the target, and the predecessor that was not imported.
func history(previous *bundle.Position, last bundle.Accepted) string {
	there := "no bundle is at the target"
	if last.Sequence > 0 {
		there = fmt.Sprintf("bundle %d is at the target", last.Sequence)
	}
	if previous == nil || previous.Sequence == last.Sequence {
		return " (" + there + ")"
	}
	return fmt.Sprintf(" (%s, the predecessor of this one is %d)", there, previous.Sequence)
}

// refusal returns nil if nothing is missing.
func (l *missingBlobs) refusal() error {
	if len(l.lines) == 0 {
		return nil
	}
	shown, more := l.lines, ""
	if len(shown) > maxLacking {
		shown, more = shown[:maxLacking], fmt.Sprintf("\n  and %d more", len(l.lines)-maxLacking)
	}
	return &refusal.Error{Reason: refusal.Incomplete, Detail: fmt.Sprintf(
		"the file omits content that the target lacks: import the files before it, or export again without --since; "+
			"missing:\n  %s%s",
		strings.Join(shown, "\n  "),
		more,
	)}
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
