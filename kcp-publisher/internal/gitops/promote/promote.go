// Package promote edits a channel's version in the file with a ModuleReleaseMeta. All other bytes stay the same,
// including comments.
package promote

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

// Promotion copies the version of one channel to another.
type Promotion struct {
	Module string `json:"module"`
	// Source is the channel to copy from. Channel is the channel to change.
	Source  string `json:"source"`
	Channel string `json:"channel"`
	// From is the previous version of Channel, or empty for a new channel. To is the new version.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}

// Message returns the promotion's commit message, with the author's sign-off.
func (p Promotion) Message(author string) string {
	had := p.From
	if had == "" {
		had = "(none)"
	}
	return fmt.Sprintf(
		"Promote %s to %s in channel %s\n\n%s, channel %s: %s -> %s, promoted from channel %s\n\nSigned-off-by: %s\n",
		p.Module, p.To, p.Channel, p.Module, p.Channel, had, p.To, p.Source, author)
}

// ErrNothing means that the channel already has the version.
var ErrNothing = errors.New("there is nothing to promote")

// Edit sets the version in a module's channel to the version in channel source, and returns the edited file. line is
// the ModuleReleaseMeta's first line. A missing channel is an error unless create is set.
func Edit(file []byte, line int, module, source, channel string, create bool) ([]byte, Promotion, error) {
	p := Promotion{Module: module, Source: source, Channel: channel}
	if source == channel {
		return nil, p, fmt.Errorf("channel %q is both the source and the target of the promotion", channel)
	}
	documents, err := strict.ParseYAML(file, strict.Limits{})
	if err != nil {
		return nil, p, err
	}
	var channels *yaml.Node
	for _, document := range documents {
		if document.Line == line {
			channels = findField(findField(document, "spec"), "channels")
		}
	}
	if channels == nil || channels.Kind != yaml.SequenceNode {
		return nil, p, fmt.Errorf("line %d: ModuleReleaseMeta of module %s: spec.channels: is required", line, module)
	}
	from, to := findChannel(channels, source), findChannel(channels, channel)
	version := findField(from, "version")
	if version == nil || version.Value == "" {
		return nil, p,
			fmt.Errorf("line %d: module %s: channel %q has no version: the channels are %s", channels.Line, module,
				source, strings.Join(channelNames(channels), ", "))
	}
	p.To = version.Value
	if hasOtherLineBreaks(file) {
		return nil, p, fmt.Errorf("line %d: module %s: channel %q: %w", channels.Line, module, channel, errByHand)
	}
	e := editor{lines: strings.SplitAfter(string(file), "\n")}
	switch {
	case to == nil && !create:
		err = fmt.Errorf("the channel does not exist: use one of %s, or --create to create the channel",
			strings.Join(channelNames(channels), ", "))
	case to == nil:
		err = e.addChannel(channels, from, channel)
	default:
		err = e.replace(findField(to, "version"), &p)
	}
	if err != nil {
		return nil, p, fmt.Errorf("line %d: module %s: channel %q: %w", channels.Line, module, channel, err)
	}
	edited := []byte(strings.Join(e.lines, ""))
	return edited, p, checkEdit(file, edited, line, p)
}

func findField(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func channelNames(channels *yaml.Node) (all []string) {
	for _, c := range channels.Content {
		if name := findField(c, "channel"); name != nil {
			all = append(all, name.Value)
		}
	}
	return all
}

func findChannel(channels *yaml.Node, channel string) *yaml.Node {
	for _, c := range channels.Content {
		if name := findField(c, "channel"); name != nil && name.Value == channel {
			return c
		}
	}
	return nil
}

type editor struct{ lines []string }

func (e *editor) replace(version *yaml.Node, p *Promotion) error {
	if version == nil {
		return errors.New("the entry has no field `version`: add it manually")
	}
	switch p.From = version.Value; {
	case p.From == p.To:
		return fmt.Errorf("%w: it has version %s", ErrNothing, p.To)
	case bundle.IsOlder(p.To, p.From):
		return fmt.Errorf(
			"it has version %s, and runtimes do not downgrade to the older version %s: revert the commit that promoted "+
				"%s, and release a newer version", p.From, p.To, p.From)
	}
	return e.replaceScalar(version, version.Line-1, p.To)
}

// replaceScalar replaces the value of a scalar and keeps its quotes. line is the scalar's line number, starting at 0.
func (e *editor) replaceScalar(scalar *yaml.Node, line int, value string) error {
	quote := ""
	switch scalar.Style &^ yaml.TaggedStyle {
	case 0:
	case yaml.DoubleQuotedStyle:
		quote = `"`
	case yaml.SingleQuotedStyle:
		quote = "'"
	default:
		return errByHand
	}
	text := []rune(e.lines[line])
	start := min(scalar.Column-1, len(text))
	rest, found := strings.CutPrefix(string(text[start:]), quote+scalar.Value+quote)
	if !found {
		return errByHand
	}
	e.lines[line] = string(text[:start]) + quote + value + quote + rest
	return nil
}

// addChannel adds a channel in the same notation as the source channel, which is in parameter from.
func (e *editor) addChannel(channels, from *yaml.Node, channel string) error {
	if channels.Style&yaml.FlowStyle != 0 {
		return errByHand
	}
	name := findField(from, "channel")
	first, last := from.Line-1, lastLine(from)
	copied := &editor{lines: append([]string(nil), e.lines[first:last]...)}
	if err := copied.replaceScalar(name, name.Line-1-first, channel); err != nil {
		return err
	}
	end := lastLine(channels)
	if !strings.HasSuffix(e.lines[end-1], "\n") {
		e.lines[end-1] += "\n"
	}
	e.lines = append(e.lines[:end:end], append(copied.lines, e.lines[end:]...)...)
	return nil
}

// lastLine returns the number of a node's last line, starting at 1. It does not support multi-line text.
func lastLine(n *yaml.Node) int {
	last := n.Line
	for _, c := range n.Content {
		last = max(last, lastLine(c))
	}
	return last
}

// hasOtherLineBreaks reports whether the file contains line breaks other than line feeds.
//
// Source: YAML 1.1, section 4.2, "Line Break Characters".
func hasOtherLineBreaks(file []byte) bool {
	text := strings.ReplaceAll(string(file), "\r\n", "\n")
	return strings.ContainsAny(text, "\r\u0085\u2028\u2029")
}

var errByHand = errors.New("this YAML notation cannot be edited automatically: edit the file by hand")

// checkEdit verifies that the edited file contains the promotion and no other change.
func checkEdit(before, after []byte, line int, p Promotion) error {
	old, err := decode(before)
	if err != nil {
		return err
	}
	edited, err := decode(after)
	if err != nil || len(edited) != len(old) {
		return errByHand
	}
	for i := range old {
		if old[i].line == line {
			promoteIn(old[i].value, p)
		}
		if !reflect.DeepEqual(old[i].value, edited[i].value) {
			return errByHand
		}
	}
	return nil
}

type document struct {
	line  int
	value any
}

func decode(file []byte) ([]document, error) {
	nodes, err := strict.ParseYAML(file, strict.Limits{})
	if err != nil {
		return nil, err
	}
	documents := make([]document, len(nodes))
	for i, node := range nodes {
		documents[i].line = node.Line
		if err := node.Decode(&documents[i].value); err != nil {
			return nil, err
		}
	}
	return documents, nil
}

func promoteIn(meta any, p Promotion) {
	spec := meta.(map[string]any)["spec"].(map[string]any)
	channels := spec["channels"].([]any)
	var source map[string]any
	for _, c := range channels {
		switch entry := c.(map[string]any); entry["channel"] {
		case p.Channel:
			entry["version"] = p.To
			return
		case p.Source:
			source = entry
		}
	}
	added := map[string]any{}
	for key, value := range source {
		added[key] = value
	}
	added["channel"] = p.Channel
	spec["channels"] = append(channels, added)
}
