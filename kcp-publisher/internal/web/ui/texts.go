package ui

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/kcp-publisher/internal/core/fleet"
)

// maxText is the maximum size of untrusted text on a page, in bytes.
const maxText = 600

var texts = template.FuncMap{
	"text": cleanText, "line": cleanLine, "prose": proseParts, "sentence": sentence, "number": number, "plural": plural,
	"short": shortDigest,
	"when":  newMoment, "stamp": formatTime, "words": healthWords, "tone": healthTone, "bundleTone": bundleTone,
	"stateTone":   stateTone,
	"rolloutTone": rolloutTone, "waveTone": waveTone, "path": url.PathEscape, "dict": newMap,
	"ready": readyModules, "breakable": splitLabel, "objectName": objectName, "logLines": logLines,
	"sum": func(a, b int) int { return a + b },
}

// cleanText returns untrusted text as one printable line of at most maxText bytes.
func cleanText(s any) string { return truncate(bundle.PrintableLine(fmt.Sprint(s)), maxText) }

// cleanLine returns untrusted text as one printable line, truncated to the given number of bytes.
func cleanLine(most int, s any) string { return truncate(bundle.PrintableLine(fmt.Sprint(s)), most) }

// textPart is a part of a text. Code is true for text between backquotes.
type textPart struct {
	Code bool
	Text string
}

// proseParts returns untrusted text as a sentence, truncated to the given number of bytes and split into parts.
func proseParts(most int, s any) []textPart {
	pieces := strings.Split(sentence(cleanLine(most, s)), "`")
	if len(pieces)%2 == 0 { // the last backquote has no counterpart
		return []textPart{{false, strings.Join(pieces, "`")}}
	}
	var parts []textPart
	for i, piece := range pieces {
		if piece != "" {
			parts = append(parts, textPart{i%2 == 1, piece})
		}
	}
	return parts
}

// sentence capitalizes the first letter of a text, unless the first word can be a name.
func sentence(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if strings.IndexFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) >= 0 || word == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// number formats a number with digits in groups of three.
func number(n any) string {
	digits := fmt.Sprint(n)
	var grouped strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			grouped.WriteByte(',')
		}
		grouped.WriteRune(d)
	}
	return grouped.String()
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// percent returns a number as a percentage of the total, for an SVG attribute.
func percent[N int | int32](number, total N) string {
	if total <= 0 {
		return "0%"
	}
	return strconv.FormatFloat(100*float64(number)/float64(total), 'f', 2, 64) + "%"
}

func shortDigest(d string) string {
	algorithm, hex, found := strings.Cut(d, ":")
	if !found || len(hex) < 12 {
		return cleanLine(24, d)
	}
	return cleanLine(24, algorithm+":"+hex[:12])
}

// pageTime is a time on a page. The page displays Full and Ago, and page.js computes Ago again from ISO.
type pageTime struct{ ISO, Full, Ago string }

func newMoment(now time.Time, t any) *pageTime {
	var at time.Time
	switch v := t.(type) {
	case time.Time:
		at = v
	case *time.Time:
		if v != nil {
			at = *v
		}
	case metav1.Time:
		at = v.Time
	case *metav1.Time:
		if v != nil {
			at = v.Time
		}
	}
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &pageTime{at.Format(time.RFC3339), formatTime(at), formatAge(now.Sub(at))}
}

// bundleTone returns the tone of a bundle. The tone determines its color and icon.
func bundleTone(b fleet.Bundle) string {
	switch {
	case b.Outcome == fleet.OutcomeRefused || b.State == v1beta2.StateError:
		return "bad"
	case b.State == v1beta2.StateWarning:
		return "lost"
	case b.Outcome == fleet.OutcomeInForce || b.Outcome == fleet.OutcomeApplied:
		return "good"
	}
	return "idle"
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func formatAge(d time.Duration) string {
	ahead := d < -time.Minute
	if d < 0 {
		d = -d
	}
	var s string
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		s = fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		s = fmt.Sprintf("%d h", d/time.Hour)
	default:
		s = fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	if ahead {
		return "in " + s
	}
	return s + " ago"
}

func healthWords(h fleet.Health) string {
	if h == fleet.NeverReported {
		return "Never reported"
	}
	return string(h)
}

// healthTone returns the tone of a health value. The tone determines its color and icon.
func healthTone(h fleet.Health) string {
	switch h {
	case fleet.Failing:
		return "bad"
	case fleet.Silent:
		return "lost"
	case fleet.NeverReported:
		return "new"
	case fleet.Behind:
		return "busy"
	case fleet.Suspended, fleet.Deleting:
		return "idle"
	case fleet.Healthy:
		return "good"
	}
	return "new"
}

func stateTone(s v1beta2.State) string {
	switch s {
	case v1beta2.StateReady:
		return "good"
	case v1beta2.StateError:
		return "bad"
	case v1beta2.StateWarning:
		return "lost"
	case v1beta2.StateProcessing:
		return "busy"
	case "":
		return "new"
	}
	return "idle"
}

func rolloutTone(s v1alpha1.RolloutState) string {
	switch s {
	case v1alpha1.RolloutSucceeded:
		return "good"
	case v1alpha1.RolloutStopped, v1alpha1.RolloutRollingBack, v1alpha1.RolloutRolledBack:
		return "bad"
	case v1alpha1.RolloutWaiting:
		return "lost"
	case v1alpha1.RolloutPaused, v1alpha1.RolloutSuperseded:
		return "idle"
	}
	return "busy"
}

func waveTone(s v1alpha1.WaveState) string {
	switch s {
	case v1alpha1.WaveProven:
		return "good"
	case v1alpha1.WaveFailed:
		return "bad"
	case v1alpha1.WaveWaiting:
		return "lost"
	case v1alpha1.WaveProgressing, v1alpha1.WaveSoaking:
		return "busy"
	}
	return "new"
}

// newMap builds a map from pairs, to pass several values to a nested template.
func newMap(pairs ...any) map[string]any {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// splitLabel splits a text, such as a label key, after each dot and slash, to allow line breaks.
func splitLabel(text string) []string {
	return slices.Collect(strings.FieldsFuncSeq(strings.NewReplacer(".", ".\x00", "/", "/\x00").Replace(text),
		func(r rune) bool { return r == 0 }))
}

func readyModules(r *fleet.Runtime) int {
	n := 0
	for i := range r.Modules {
		if s := r.Modules[i].State; s == v1beta2.StateReady || s == v1beta2.StateUnmanaged {
			n++
		}
	}
	return n
}

func objectName(o bundle.DetailedObject) string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

func logLines(log string) []string {
	var lines []string
	for one := range strings.Lines(log) {
		lines = append(lines, cleanLine(bundle.MaxDetailTextBytes, strings.TrimRight(one, "\n")))
	}
	return lines
}
