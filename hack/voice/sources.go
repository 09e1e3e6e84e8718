package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kinds of text.
const (
	comments = "comments"
	texts    = "strings" // string literals of at least three words
	markdown = "docs"
)

// collection contains the measured units of a repository by unit.key.
type collection map[string]*unit

func (c collection) unit(kind, file string) *unit {
	key := kind + " " + path.Dir(file)
	if c[key] == nil {
		c[key] = &unit{key: key, places: map[string][]place{}}
	}
	return c[key]
}

// measureRepository measures all Go and Markdown files that git tracks or would add.
func measureRepository(root string) ([]*unit, error) {
	command := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go", "*.md",
		"*.md.gotmpl")
	command.Dir = root
	list, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of %s: %w", root, err)
	}
	found := collection{}
	for file := range strings.Lines(string(list)) {
		file = strings.TrimSpace(file)
		data, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue // git lists deleted files too
		} else if err != nil {
			return nil, err
		}
		if path.Ext(file) == ".go" {
			err = found.addGo(file, data)
		} else {
			found.addMarkdown(file, string(data))
		}
		if err != nil {
			return nil, err
		}
	}
	var units []*unit
	for _, key := range slices.Sorted(maps.Keys(found)) {
		units = append(units, found[key])
	}
	return units, nil
}

var (
	marker = regexp.MustCompile(`^(//(go:|nolint|\s*\+\w)|// Code generated )`)
	url    = regexp.MustCompile(`https?://\S+`)
)

// addGo counts the comments, string literals and long lines of a Go file. Generated files are skipped.
func (c collection) addGo(file string, data []byte) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(parsed) {
		return nil
	}
	inComments, inTexts := c.unit(comments, file), c.unit(texts, file)
	inComments.measureLines(file, string(data), func(line string) string { return url.ReplaceAllString(line, "") })
	for _, group := range parsed.Comments {
		inComments.add(file, set.Position(group.Pos()).Line, commentText(group))
	}
	var tag *ast.BasicLit // the tag of the current field
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			tag = n.Tag
		case *ast.BasicLit:
			if text, ok := severalWords(n); ok && n != tag {
				inTexts.add(file, set.Position(n.Pos()).Line, text)
			}
		}
		return true
	})
	return nil
}

// commentText returns the text of a comment by line, without directives and comment markers.
func commentText(group *ast.CommentGroup) string {
	var lines []string
	for _, comment := range group.List {
		text := comment.Text
		switch {
		case marker.MatchString(text):
			text = ""
		case strings.HasPrefix(text, "//"):
			text = text[2:]
		default:
			text = strings.TrimSuffix(strings.TrimPrefix(text, "/*"), "*/")
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// severalWords returns the text of a string literal with at least three words.
func severalWords(literal *ast.BasicLit) (string, bool) {
	if literal.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil || len(strings.Fields(text)) < 3 {
		return "", false
	}
	if literal.Value[0] != '`' {
		text = strings.ReplaceAll(text, "\n", " ") // treat a string literal as one line
	}
	return text, true
}
