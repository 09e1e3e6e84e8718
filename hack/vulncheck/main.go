// Command vulncheck runs govulncheck. It fails on known vulnerabilities in reachable code. If the vulnerability
// database cannot be reached, it prints a line that begins with SKIPPED and succeeds, except on GitHub. With -db, a
// missing copy of the database is a failure.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// govulncheck's exit code if it found vulnerabilities, and its message if it cannot reach the database.
const (
	codeFound   = 3
	unreachable = "govulncheck: fetching vulnerabilities:"
)

func main() {
	database := flag.String("db", "",
		"URL of a copy of the database, such as file:///vulndb/data/osv, a folder of OSV files; empty for "+
			"https://vuln.go.dev")
	flag.Parse()
	os.Exit(check(*database, flag.Args(), os.Stdout))
}

func check(database string, packages []string, out io.Writer) int {
	args := []string{"tool", "-modfile=hack/tools/go.mod", "govulncheck"}
	if database != "" {
		args = append(args, "-db", database)
	}
	command := exec.Command("go", append(args, packages...)...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	code := 0
	if err := command.Run(); err != nil {
		code = 1
		if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
			code = exited.ExitCode()
		}
		fmt.Fprintln(&output, err)
	}
	verdict, code := exitStatus(code, output.String(), database, os.Getenv("GITHUB_ACTIONS") != "")
	fmt.Fprint(out, output.String()+verdict+"\n")
	return code
}

// exitStatus returns the message and the exit code for a run of govulncheck. If required is true, an unreachable
// database is a failure.
func exitStatus(code int, output, database string, required bool) (string, int) {
	switch {
	case code == 0:
		return "vulncheck: no known vulnerability is reachable", 0
	case code == codeFound:
		return "vulncheck: upgrade the modules above", code
	case database == "" && strings.Contains(output, unreachable) && required:
		return "vulncheck: NOT CHECKED: the vulnerability database cannot be reached", code
	case database == "" && strings.Contains(output, unreachable):
		return "SKIPPED: the vulnerability database cannot be reached: use make vulncheck VULNDB=URL with a copy",
			0
	}
	return "vulncheck: govulncheck failed", code
}
