// Linkcheck reports links to missing pages, files and anchors in the HTML of a built site. It ignores links to other
// sites.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: linkcheck FOLDER")
		os.Exit(2)
	}
	broken, checked, err := check(os.DirFS(filepath.Clean(os.Args[1])))
	if err != nil {
		fmt.Fprintln(os.Stderr, "linkcheck:", err)
		os.Exit(1)
	}
	for _, problem := range broken {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(broken) > 0 {
		os.Exit(1)
	}
	fmt.Printf("%d links of the site lead to existing pages and anchors\n", checked)
}

// page is one HTML file: its anchors and its links.
type page struct {
	anchors map[string]bool
	links   []string
}

// check returns one line for each broken link, and the number of checked links.
func check(site fs.FS) (broken []string, checked int, err error) {
	pages, files := map[string]page{}, map[string]bool{}
	err = fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name] = true
		if path.Ext(name) != ".html" {
			return nil
		}
		pages[name], err = read(site, name)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if len(pages) == 0 {
		return nil, 0, errors.New("the folder contains no HTML pages")
	}
	for name, p := range pages {
		for _, link := range p.links {
			target, anchor, inside := resolve(name, link)
			if !inside {
				continue
			}
			checked++
			switch found, isPage := pages[target]; {
			case !files[target]:
				broken = append(broken, fmt.Sprintf("%s links to %s, which does not exist", name, link))
			case anchor != "" && isPage && !found.anchors[anchor]:
				broken = append(broken, fmt.Sprintf("%s links to %s, which has no such anchor", name, link))
			}
		}
	}
	slices.Sort(broken)
	return broken, checked, nil
}

func read(site fs.FS, name string) (page, error) {
	file, err := site.Open(name)
	if err != nil {
		return page{}, err
	}
	defer file.Close()
	document, err := html.Parse(file)
	if err != nil {
		return page{}, fmt.Errorf("parse %s: %w", name, err)
	}
	p := page{anchors: map[string]bool{}}
	for node := range document.Descendants() {
		for _, attribute := range node.Attr {
			switch {
			case attribute.Key == "id":
				p.anchors[attribute.Val] = true
			case attribute.Key == "href" && node.Data == "a", attribute.Key == "src" && node.Data == "img":
				p.links = append(p.links, attribute.Val)
			}
		}
	}
	return p, nil
}

// resolve returns the file and the anchor of a link in the file source. inside is false for a link to
// another site.
func resolve(source, link string) (file, anchor string, inside bool) {
	target, err := url.Parse(link)
	if err != nil || target.Host != "" || target.Scheme != "" {
		return "", "", false
	}
	switch {
	case target.Path == "":
		file = source
	case strings.HasPrefix(target.Path, "/"):
		file = strings.TrimPrefix(target.Path, "/")
	default:
		file = path.Join(path.Dir(source), target.Path)
	}
	switch {
	case strings.HasSuffix(target.Path, "/"):
		file = path.Join(file, "index.html")
	case path.Ext(file) == "":
		file += ".html"
	}
	return path.Clean(file), target.Fragment, true
}
