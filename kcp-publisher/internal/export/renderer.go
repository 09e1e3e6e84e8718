package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/airgap"
	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

const (
	// rendererTimeout ends a renderer that does not end by itself: it gives a chart 30 seconds.
	rendererTimeout = 2 * time.Minute
	// maxComplaintBytes is enough to say why a renderer failed.
	maxComplaintBytes = 4 << 10
)

// Renderer is an skr-agent program. It renders as the agent of a runtime does, in a process of its own with nothing of
// this one's environment.
type Renderer struct{ Program string }

// Images asks the program which images a module uses.
func (r Renderer) Images(ctx context.Context, q airgap.UsedQuestion) ([]string, error) {
	question, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, rendererTimeout)
	defer cancel()
	child := exec.CommandContext(limited, r.Program, "used-images")
	said, complaint := &bounded.Buffer{MaxBytes: airgap.MaxUsedAnswerBytes, Full: cancel}, &bounded.Buffer{MaxBytes: maxComplaintBytes}
	child.Stdin, child.Stdout, child.Stderr = bytes.NewReader(question), said, complaint
	child.Env = []string{}
	child.WaitDelay = time.Second
	err = child.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case said.Overflowed():
		return nil, fmt.Errorf("%s says more than %d bytes", r.Program, said.MaxBytes)
	case limited.Err() != nil:
		return nil, fmt.Errorf("%s took longer than %s and was stopped", r.Program, rendererTimeout)
	case strings.Contains(complaint.String(), `unknown command "used-images"`):
		return nil, fmt.Errorf("%s cannot do this: name an skr-agent of this version with --renderer", r.Program)
	case err != nil:
		first, _, _ := strings.Cut(complaint.String(), "\n")
		return nil, fmt.Errorf("%s: %w: %q", r.Program, err, first)
	}
	var answer airgap.UsedAnswer
	if err := json.Unmarshal(said.Bytes(), &answer); err != nil {
		return nil, fmt.Errorf("%s: its answer: %w", r.Program, err)
	}
	if answer.Refused != "" {
		return nil, errors.New(bundle.Bounded(answer.Refused, bundle.MaxMessageBytes)) // a chart says it
	}
	return answer.Images, nil
}
