package assets

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

const reportEvery = 15 * time.Second

// runWithProgress runs a command, shows its title and duration, and returns its output.
func runWithProgress(cmd *exec.Cmd, title string, progress io.Writer) (string, error) {
	// Do not show the output, because it would disturb the spinner.
	var output, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &problem
	started := time.Now()
	show, every := lines(title, progress)
	if file, ok := progress.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		show, every = spinner(title, progress)
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			show(time.Since(started), true)
			if err != nil {
				return "", fmt.Errorf("%w\n%s%s", err, problem.String(), output.String())
			}
			return output.String(), nil
		case <-tick.C:
			show(time.Since(started), false)
		}
	}
}

func lines(title string, progress io.Writer) (show func(elapsed time.Duration, ended bool), every time.Duration) {
	fmt.Fprintf(progress, "%s …\n", title)
	return func(elapsed time.Duration, ended bool) {
		state := "still running"
		if ended {
			state = "ended"
		}
		fmt.Fprintf(progress, "%s: %s after %s\n", title, state, elapsed.Round(time.Second))
	}, reportEvery
}

func spinner(title string, progress io.Writer) (show func(elapsed time.Duration, ended bool), every time.Duration) {
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(progress), progressbar.OptionSetDescription(title),
		progressbar.OptionSpinnerType(14), progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish())
	return func(elapsed time.Duration, ended bool) {
		if !ended {
			_ = bar.Add(1) // an error from the spinner does not affect the command
			return
		}
		_ = bar.Finish()
		fmt.Fprintf(progress, "%s: ended after %s\n", title, elapsed.Round(time.Second))
	}, 200 * time.Millisecond
}
