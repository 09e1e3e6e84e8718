package main

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestCheckReportsMissingPagesFilesAndAnchors(t *testing.T) {
	page := func(body string) *fstest.MapFile { return &fstest.MapFile{Data: []byte("<html><body>" + body)} }
	site := fstest.MapFS{
		"index.html": page(`<a href="/guides/install.html#network">good</a> <a href="guides/gone.html">bad</a>
			<a href="#here">good</a> <h2 id="here">x</h2> <a href="https://example.com/gone">outside</a> <img src="/a.png">`),
		"guides/install.html": page(`<h2 id="network">x</h2> <a href="../#there">bad</a> <a href="/">good</a>
			<img src="b.png">`),
		"a.png": {},
	}
	broken, checked, err := check(site)
	require.NoError(t, err)
	require.Equal(t, []string{
		"guides/install.html links to ../#there, which has no such anchor",
		"guides/install.html links to b.png, which does not exist",
		"index.html links to guides/gone.html, which does not exist",
	}, broken)
	require.Equal(t, 7, checked)
}

func TestCheckRejectsFolderWithoutPages(t *testing.T) {
	_, _, err := check(fstest.MapFS{"a.txt": {}})
	require.ErrorContains(t, err, "no HTML pages")
}
