package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxColumns limits the length of a line outside tables and links. A tab counts as one column.
const maxColumns = 120

// longLines is the measure of lines over maxColumns. It is a count; other measures are rates per 1,000 words.
const longLines = "long"

// measure is one counted habit.
type measure struct {
	name    string
	pattern *regexp.Regexp
	// except matches acceptable hits of pattern, which do not count.
	except *regexp.Regexp
}

var measures = []measure{
	{name: "what", pattern: regexp.MustCompile(`(?i)\bwhat\b`)},
	{name: "nobody", pattern: regexp.MustCompile(`(?i)\b(nobody|somebody|anybody|whoever)\b`)},
	{name: "says", pattern: regexp.MustCompile(`(?i)\b(tells|says|told|said)\b`)},
	{name: "which", pattern: regexp.MustCompile(`(?i)\b(of|by|for)\s+(which|whom|what)\b`)},
	{
		name: "none", pattern: regexp.MustCompile(`(?i)\b(is|are)\s+(none|no(\s+\w+)?)\b`),
		except: regexp.MustCompile(`(?i)no\s+(longer|more|less|later|earlier)$`),
	},
	{name: "duty", pattern: regexp.MustCompile(`\b(is|are)\s+to\s+[a-z]+`)},
	{name: "archaic", pattern: regexp.MustCompile(`(?i)\b(meanwhile|anew|lest)\b`)},
	{name: longLines},
}

// rates contains the rate or limit of each measure by name.
type rates map[string]float64

// place is one hit with its position.
type place struct {
	file string
	line int
	text string
}

func (p place) String() string { return fmt.Sprintf("%s:%d: %s", p.file, p.line, p.text) }

// unit contains the hits in one kind of text (comments, string literals or Markdown) of one folder.
type unit struct {
	key    string // kind and folder, as in ceilings.txt
	words  int
	places map[string][]place
}

// rate returns hits per 1,000 words, or the number of long lines.
func (u *unit) rate(name string) float64 {
	count := float64(len(u.places[name]))
	if name == longLines {
		return count
	}
	if u.words == 0 {
		return 0
	}
	return count * 1000 / float64(u.words)
}

// add counts the words and hits in text that starts at the given line of a file.
func (u *unit) add(file string, line int, text string) {
	for _, field := range strings.Fields(text) {
		if strings.ContainsFunc(field, unicode.IsLetter) {
			u.words++
		}
	}
	for _, m := range measures {
		if m.pattern == nil {
			continue
		}
		for _, at := range m.pattern.FindAllStringIndex(text, -1) {
			if m.except != nil && m.except.MatchString(text[at[0]:at[1]]) {
				continue
			}
			u.hit(m.name, place{file, line + strings.Count(text[:at[0]], "\n"), excerptAround(text, at)})
		}
	}
}

func (u *unit) hit(name string, p place) { u.places[name] = append(u.places[name], p) }

// excerptAround returns a hit with some surrounding text in one line.
func excerptAround(text string, at []int) string {
	const side = 60
	from, to := max(0, at[0]-side), min(len(text), at[1]+side)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	for to < len(text) && !utf8.RuneStart(text[to]) {
		to++
	}
	return strings.Join(strings.Fields(text[from:to]), " ")
}

// measureLines records the lines that are longer than maxColumns. The function shown returns the part of a line that
// counts.
func (u *unit) measureLines(file, text string, shown func(string) string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = shown(strings.TrimRight(line, "\r\n"))
		if columns := utf8.RuneCountInString(line); columns > maxColumns {
			u.hit(longLines, place{file, number, fmt.Sprintf("%d columns", columns)})
		}
	}
}

// countExcess returns the number of hits that a unit has above the target, without long lines.
func (u *unit) countExcess(targets rates) float64 {
	sum := 0.0
	for _, m := range measures {
		if m.name != longLines {
			sum += max(0, float64(len(u.places[m.name]))-targets[m.name]*float64(u.words)/1000)
		}
	}
	return sum
}

// sortByExcess sorts units by their hits above the target, most first.
func sortByExcess(units []*unit, targets rates) []*unit {
	return slices.SortedStableFunc(slices.Values(units), func(a, b *unit) int {
		return -cmp.Compare(a.countExcess(targets), b.countExcess(targets))
	})
}
