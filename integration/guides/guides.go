// Package guides reads the shell blocks of the documentation, so that tests can run the documented commands.
//
// The opening fence of a block contains instructions for the tests. "test=NAME" names the block. "check" marks a block
// that tests repeat until it succeeds. "others" marks a block that tests run on a different fleet than the page's other
// blocks.
package guides

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Block is a shell block of a page.
type Block struct {
	// Section is the second-level heading above the block. It is empty before the first such heading.
	Section string
	// Name is the value of "test=". It can be empty.
	Name string
	// Check and Others are true if the opening fence contains the words "check" and "others".
	Check, Others bool
	Script        string
}

var line = regexp.MustCompile("(?ms)^## ([^\n]+)$|^ *```sh([^\n]*)\n(.*?)^ *```$")

// Read returns the shell blocks of the page at a path, in the order of the page.
func Read(path string) ([]Block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	blocks, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return blocks, nil
}

func parse(page string) ([]Block, error) {
	var blocks []Block
	section := ""
	for _, found := range line.FindAllStringSubmatch(page, -1) {
		if found[1] != "" {
			section = found[1]
			continue
		}
		block := Block{Section: section, Script: found[3]}
		for _, word := range strings.Fields(found[2]) {
			name, named := strings.CutPrefix(word, "test=")
			switch {
			case named && name != "":
				block.Name = name
			case word == "check":
				block.Check = true
			case word == "others":
				block.Others = true
			default:
				return nil,
					fmt.Errorf("section %q: unknown word %q after sh: use test=NAME, check or others", section, word)
			}
		}
		blocks = append(blocks, block)
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("the page has no sh block")
	}
	return blocks, nil
}

// Named returns the blocks whose Name is name, in the order of the page.
func Named(blocks []Block, name string) []Block {
	var all []Block
	for _, b := range blocks {
		if b.Name == name {
			all = append(all, b)
		}
	}
	return all
}
