package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kyma-pull/kyma-pull/internal/cli"
)

// Confirm asks the user to confirm a change, unless --yes is set. If stdin is not a terminal, it returns a usage error.
func Confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	if in, ok := cmd.InOrStdin().(*os.File); !ok || !term.IsTerminal(int(in.Fd())) {
		return cli.Usage(fmt.Errorf("%s: add --yes to confirm", question))
	}
	cli.Printf(cmd.ErrOrStderr(), "%s?\nType yes to confirm: ", question)
	answers := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		answers <- answer
	}()
	select {
	case answer := <-answers:
		if strings.TrimSpace(answer) == "yes" {
			return nil
		}
	case <-cmd.Context().Done():
	}
	return cli.Usage(errors.New("canceled: nothing was changed"))
}
