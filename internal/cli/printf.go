package cli

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Printf writes formatted text. It replaces line ends and tabs in arguments with spaces, so that text from runtimes,
// registries and charts cannot add lines to a command's output. The command's writer escapes the other control
// characters.
func Printf(out io.Writer, format string, args ...any) {
	lines := make([]any, len(args))
	for i, arg := range args {
		lines[i] = lineOf(arg)
	}
	fmt.Fprintf(out, format, lines...)
}

// lineOf returns an argument as text without line ends, or a number unchanged.
func lineOf(arg any) any {
	switch a := arg.(type) {
	case error:
		return lineEnds.Replace(a.Error())
	case fmt.Stringer:
		return lineEnds.Replace(a.String())
	}
	if value := reflect.ValueOf(arg); value.Kind() == reflect.String {
		return lineEnds.Replace(value.String())
	}
	return arg
}

var lineEnds = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ", "\u2028", " ", "\u2029", " ")
