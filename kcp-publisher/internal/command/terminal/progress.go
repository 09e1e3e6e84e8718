package terminal

import (
	"io"

	"github.com/schollz/progressbar/v3"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// fewSteps is the minimum number of steps for a progress bar.
const fewSteps = 20

// Steps shows a progress bar if out is a terminal and total is at least 20. The caller calls advance after each step.
// advance is safe for concurrent use.
func Steps(out io.Writer, what string, total int) (advance func(), shown bool) {
	if total < fewSteps || !cli.IsTerminal(out) {
		return func() {}, false
	}
	bar := progressbar.NewOptions(total, progressbar.OptionSetWriter(cli.Raw(out)), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
	return func() { _ = bar.Add(1) }, true // a drawing error must not stop the work
}

// Bytes shows a progress bar for a transfer if out is a terminal. total is the size in bytes.
func Bytes(out io.Writer, what string, total int64) (advance func(int64), done func()) {
	if !cli.IsTerminal(out) {
		return func(int64) {}, func() {}
	}
	bar := progressbar.NewOptions64(total, progressbar.OptionSetWriter(cli.Raw(out)),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish())
	return func(n int64) { _ = bar.Add64(n) }, func() { _ = bar.Finish() } // a drawing error must not stop the work
}
