package render

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"sigs.k8s.io/yaml"
)

// templateCall is a call to a nondeterministic function in a template.
type templateCall struct {
	function, file string
	line, offset   int
}

func (c templateCall) String() string { return fmt.Sprintf("%s (%s:%d)", c.function, c.file, c.line) }

// template lists the calls and includes in one parsed template.
type template struct {
	calls    []templateCall
	includes []string // included templates' names; computed names are omitted
	usesTpl  bool
}

// merge returns a template with the calls and includes of both definitions of one name. Helm uses only one definition,
// which depends on the paths of the files.
func (t template) merge(other template) template {
	return template{
		calls: append(t.calls, other.calls...), includes: append(t.includes, other.includes...),
		usesTpl: t.usesTpl || other.usesTpl,
	}
}

// findCalls finds calls to nondeterministic functions in all files and values.
func findCalls(files []file, values []byte) usage {
	charts := map[string]string{}
	for _, f := range files {
		if inChart(f.name) == "Chart.yaml" {
			charts[path.Dir(f.name)] = chartName(f.data)
		}
	}
	found := usage{}
	for _, f := range append(slices.Clone(files), file{"config layer", values}) {
		for name, t := range parseTemplate(f.name, f.data) {
			if name == f.name {
				name = helmName(name, charts)
			}
			found[name] = found[name].merge(t)
		}
	}
	return found
}

func chartName(text []byte) string {
	var metadata struct{ Name string }
	_ = yaml.Unmarshal(text, &metadata) // Chart.yaml is valid, because Helm has already loaded the chart
	return metadata.Name
}

func helmName(name string, charts map[string]string) string {
	full, folder := charts["."], "."
	for {
		rest, inside := strings.CutPrefix(name, "charts/")
		inner, rest, deeper := strings.Cut(rest, "/")
		if !inside || !deeper {
			return full + "/" + name
		}
		folder, name = path.Join(folder, "charts", inner), rest
		full += "/charts/" + charts[folder]
	}
}

// parseTemplate returns the templates in text: the whole text under the given name, and the templates in define actions
// under their own names. If the whole text is not a valid template, for example because values contain Prometheus
// templates, it parses each action alone. It returns nil if the text does not contain actions.
func parseTemplate(name string, text []byte) map[string]template {
	if !bytes.Contains(text, []byte("{{")) {
		return nil
	}
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck
	trees := map[string]*parse.Tree{}
	if _, err := tree.Parse(string(text), "", "", trees); err != nil {
		return map[string]template{name: parseActions(name, text)}
	}
	trees[name] = tree
	found := map[string]template{}
	for name, t := range trees {
		var part template
		walk{file: tree.Name, text: text, into: &part}.node(t.Root)
		found[name] = part
	}
	return found
}

var action = regexp.MustCompile(`(?s){{.*?}}`)

// parseActions returns the calls in all actions of a text that are valid templates. It skips actions with a body, such
// as range.
func parseActions(name string, text []byte) template {
	var found template
	for _, at := range action.FindAllIndex(text, -1) {
		tree := parse.New(name)
		tree.Mode = parse.SkipFuncCheck
		if _, err := tree.Parse(string(text[at[0]:at[1]]), "", "", map[string]*parse.Tree{}); err == nil {
			walk{file: name, text: text, start: at[0], into: &found}.node(tree.Root)
		}
	}
	return found
}

// walk collects the calls and includes in a template's syntax tree.
type walk struct {
	file string
	text []byte
	// start is the offset of the parsed part in text.
	start int
	into  *template
}

func (w walk) node(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			w.node(child)
		}
	case *parse.ActionNode:
		w.node(n.Pipe)
	case *parse.IfNode:
		w.branch(n.BranchNode)
	case *parse.WithNode:
		w.branch(n.BranchNode)
	case *parse.RangeNode:
		w.branch(n.BranchNode)
	case *parse.TemplateNode:
		w.into.includes = append(w.into.includes, n.Name)
		w.node(n.Pipe)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for i, command := range n.Cmds {
			w.command(command, n.Cmds[i+1:])
		}
	case *parse.ChainNode:
		w.node(n.Node)
	case *parse.IdentifierNode:
		w.identifier(n)
	}
}

func (w walk) branch(n parse.BranchNode) {
	w.node(n.Pipe)
	w.node(n.List)
	w.node(n.ElseList)
}

// command walks one command in a pipeline. next contains the commands that come after it.
func (w walk) command(n *parse.CommandNode, next []*parse.CommandNode) {
	args := n.Args
	if function := identifier(n); function == "include" && len(args) > 1 {
		if name, ok := args[1].(*parse.StringNode); ok {
			w.into.includes = append(w.into.includes, name.Text)
		}
	} else if function == "keys" && len(next) > 0 &&
		slices.Contains([]string{"sortAlpha", "len", "has"}, identifier(next[0])) {
		args = args[1:]
	}
	for _, arg := range args {
		w.node(arg)
	}
}

func identifier(n *parse.CommandNode) string {
	if id, ok := n.Args[0].(*parse.IdentifierNode); ok {
		return id.Ident
	}
	return ""
}

func (w walk) identifier(n *parse.IdentifierNode) {
	if n.Ident == "tpl" {
		w.into.usesTpl = true
	}
	if _, ok := nondeterministic[n.Ident]; !ok {
		return
	}
	offset := w.start + int(n.Position())
	if !bytes.HasPrefix(w.text[offset:], []byte(n.Ident)) {
		return
	}
	w.into.calls = append(w.into.calls, templateCall{n.Ident, w.file, 1 + bytes.Count(w.text[:offset], []byte("\n")),
		offset})
}

// nondeterministic contains the template functions whose result depends on random numbers, the clock, or the order of
// maps. Each value is a stand-in for the function: template text that replaces the function in a second rendering and
// always has a different result. A function without a stand-in has a different result in nearly every call.
//
// The map contains sprig's nonhermeticFunctions, except those that Helm's engine removes. It also contains keys,
// values, and all functions that generate a key, a certificate or a salt.
var nondeterministic = map[string]string{
	"now":                      "(toDate `2006-01-02` `1999-12-31`)",
	"ago":                      "printf `%v ago`",
	"randAlphaNum":             "printf `%v randAlphaNum`",
	"randAlpha":                "printf `%v randAlpha`",
	"randAscii":                "printf `%v randAscii`",
	"randNumeric":              "printf `%v randNumeric`",
	"randBytes":                "printf `%v randBytes`",
	"randInt":                  "biggest `randInt`",
	"shuffle":                  "printf `%v shuffle`",
	"uuidv4":                   "(print `uuidv4`)",
	"genPrivateKey":            "printf `%v genPrivateKey`",
	"genCA":                    "",
	"genCAWithKey":             "",
	"genSelfSignedCert":        "",
	"genSelfSignedCertWithKey": "",
	"genSignedCert":            "",
	"genSignedCertWithKey":     "",
	"htpasswd":                 "",
	"bcrypt":                   "",
	"encryptAES":               "",
	"keys":                     "",
	"values":                   "",
}

// usage maps names to a chart's parsed templates. The name is a file name, or the name in a define action.
type usage map[string]template
