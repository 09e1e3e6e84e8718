// Command voice measures how plainly the project writes: in comments, in string literals and in Markdown.
//
// It counts seven habits that make readers stop, per 1,000 words, and lines over 120 columns. It fails if a package
// or a documentation folder exceeds its ceiling in ceilings.txt. -lower lowers ceilings to the current rates and
// never raises one. The rates find places to rewrite; a reader judges the text.
//
// To rewrite a place, name the thing, then state its action: subject, verb, object.
//
//	what     a clause as a noun: "what follows from it"; use the noun: "the resulting bundle"
//	nobody   nobody, somebody, anybody, whoever; name the actor: "an operator", "no runtime"
//	says     verbs of speech for state: tells, says, told, said; use reports, records, contains, returns
//	which    "of which", "by whom", "for what"; write two sentences, or use the possessive
//	none     "is no chart", "is none"; write "is not a chart", "none is configured"
//	duty     "is to" for a duty; write "must"
//	archaic  meanwhile, anew, lest; write "until then", "again", "so that it does not"
//	long     a line over 120 columns outside tables and links
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	lower := flag.Bool("lower", false, "lower the recorded ceilings to the current rates")
	worst := flag.Int("worst", 0, "list this many units, furthest from the target first, and exit")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "voice [-root FOLDER] [-lower | -worst N | FOLDER...]\n\n"+
			"Without folders, check all units against ceilings.txt. With folders, list the places in them.")
		flag.PrintDefaults()
	}
	flag.Parse()
	ok, err := run(os.Stdout, *root, *lower, *worst, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "voice:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run reports whether all units are within their ceilings.
func run(out io.Writer, root string, lower bool, worst int, folders []string) (bool, error) {
	path := filepath.Join(root, "hack", "voice", "ceilings.txt")
	data, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	ceilings, err := parseCeilings(string(data))
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	units, err := measureRepository(root)
	if err != nil {
		return false, err
	}
	switch {
	case lower:
		return true, os.WriteFile(path, []byte(ceilings.lowered(units).String()), 0o644)
	case worst > 0:
		printWorst(out, units, ceilings.targets, worst)
		return true, nil
	case len(folders) > 0:
		printPlaces(out, units, folders)
		return true, nil
	}
	return printExcesses(out, ceilings.check(units)), nil
}

func printExcesses(out io.Writer, excesses []excess) bool {
	for _, e := range excesses {
		fmt.Fprintf(out, "%s: %s %.1f exceeds the ceiling of %.1f\n", e.unit.key, e.measure, e.rate, e.ceiling)
		for _, p := range e.unit.places[e.measure] {
			fmt.Fprintf(out, "  %s\n", p)
		}
	}
	if len(excesses) > 0 {
		fmt.Fprintln(out, "\nRewrite these places; go doc ./hack/voice has the habits to avoid.\n"+
			"If a package moved, move its line in hack/voice/ceilings.txt.")
	}
	return len(excesses) == 0
}

func printWorst(out io.Writer, units []*unit, targets rates, limit int) {
	fmt.Fprintln(out, "hits above the target, kind and folder, words, rates per 1,000 words and long lines")
	for i, u := range sortByExcess(units, targets) {
		if i == limit {
			break
		}
		fmt.Fprintf(out, "%5.0f  %-60s %6d words ", u.countExcess(targets), u.key, u.words)
		for _, m := range measures {
			fmt.Fprintf(out, " %s=%.1f", m.name, u.rate(m.name))
		}
		fmt.Fprintln(out)
	}
}

func printPlaces(out io.Writer, units []*unit, folders []string) {
	for _, u := range units {
		for _, m := range measures {
			for _, p := range u.places[m.name] {
				if within(p.file, folders) {
					fmt.Fprintf(out, "%-6s %s\n", m.name, p)
				}
			}
		}
	}
}

func within(file string, folders []string) bool {
	for _, folder := range folders {
		folder = strings.TrimSuffix(filepath.ToSlash(filepath.Clean(folder)), "/")
		if folder == "." || file == folder || strings.HasPrefix(file, folder+"/") {
			return true
		}
	}
	return false
}
