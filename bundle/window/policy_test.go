package window

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestInvalidWindowPolicyErrorNamesTheField(t *testing.T) {
	inRule := func(window string) string { return `{"rules":[{"match":{"plan":"x"},"windows":[` + window + `]}]}` }
	match := func(match string) string { return `{"rules":[{"match":{` + match + `},"windows":[]}]}` }
	for name, c := range map[string]struct{ policy, want string }{
		"Empty file":                {"", "empty"},
		"File that is not JSON":     {"rules: []", "invalid character"},
		"Two documents":             {"{}{}", "more than one document"},
		"List instead of an object": {"[]", "cannot unmarshal array"},
		"Unknown field":             {`{"rule":[]}`, `unknown field "rule"`},
		"Unknown attribute":         {match(`"zone":"x"`), `unknown field "rules[0].match.zone"`},
		"Capitalized field":         {`{"Rules":[]}`, `unknown field "Rules"`},
		"Duplicate field":           {`{"rules":[],"rules":[]}`, `key "rules" appears twice`},
		"Deep nesting": {
			strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9), "nested deeper than 8 levels",
		},
		"Invalid pattern": {match(`"plan":"("`), "rules[0].match.plan: error parsing regexp"},
		"Pattern longer than the limit": {
			match(`"region":"` + strings.Repeat("a", 1025) + `"`),
			"rules[0].match.region: the pattern is 1025 bytes, must be at most 1024",
		},
		"Pattern that is too complex": {
			match(`"region":"(abcdefghijklmnopqrst){1000}"`), "rules[0].match.region: the pattern is too complex",
		},
		"Pattern with too many repetitions": {
			match(`"region":"(a{1000}){1000}"`), "rules[0].match.region: error parsing regexp: invalid repeat count",
		},
		"Both globalAccountID and globalAccountId": {
			match(`"globalAccountID":"a","globalAccountId":"b"`),
			"rules[0].match has both globalAccountID and globalAccountId",
		},
		"Invalid day": {
			inRule(`{"days":["Mon","Saturday"],"begin":"01:00:00Z","end":"02:00:00Z"}`),
			`rules[0].windows[0].days[1]: "Saturday": must be Mon`,
		},
		"Duplicate day": {
			inRule(`{"days":["Mon","Mon"],"begin":"01:00:00Z","end":"02:00:00Z"}`),
			"rules[0].windows[0].days[1]: duplicate Mon",
		},
		"Time without an offset": {
			inRule(`{"days":["Mon"],"begin":"01:00:00","end":"02:00:00Z"}`),
			`rules[0].windows[0].begin: "01:00:00": must be a time of day with its offset`,
		},
		"Invalid time": {
			inRule(`{"days":["Mon"],"begin":"01:00:00Z","end":"24:00:00Z"}`),
			`rules[0].windows[0].end: "24:00:00Z": must be a time of day`,
		},
		"Date in a weekly window": {
			inRule(`{"days":["Mon"],"begin":"2026-12-08T20:00:00Z","end":"02:00:00Z"}`), "rules[0].windows[0].begin: ",
		},
		"Two offsets in one window": {
			inRule(`{"days":["Mon"],"begin":"01:00:00Z","end":"02:00:00+01:00"}`),
			"rules[0].windows[0].end \"02:00:00+01:00\" has a different offset",
		},
		"Time of day without days": {
			inRule(`{"begin":"01:00:00Z","end":"02:00:00Z"}`),
			`rules[0].windows[0].begin: "01:00:00Z": must be a date such as 2026-12-08T20:00:00Z, or set days`,
		},
		"Window without times": {inRule(`{}`), `rules[0].windows[0].begin: ""`},
		"Window with begin and timeEnd": {
			inRule(`{"days":["Mon"],"begin":"01:00:00Z","timeEnd":"02:00:00Z"}`),
			"rules[0].windows[0] has begin or end together with timeBegin or timeEnd",
		},
		"Too many windows": {
			inRule(strings.TrimSuffix(strings.Repeat(`{},`, 105), ",")),
			"rules[0].windows: 105 windows, must be at most 104",
		},
		"Too many rules": {
			`{"rules":[` + strings.TrimSuffix(strings.Repeat(`{},`, 1001), ",") + `]}`,
			"rules: 1001 entries, must be at most 1000",
		},
		"Invalid default":            {`{"default":{"days":["Sat"]}}`, `default.begin: ""`},
		"File larger than the limit": {strings.Repeat(" ", MaxPolicyBytes+1), "262145 bytes, must be at most 262144"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(c.policy)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestPolicyPartsWithoutEffectAreReportedAsRemarks(t *testing.T) {
	policy, err := Parse([]byte(`{
		"rules": [
			{"match": {}, "windows": [{"begin": "2026-12-20T04:00:00Z", "end": "2026-12-13T08:00:00Z"}, {"begin": "2026-12-20T04:00:00Z", "end": "2026-12-21T04:00:00Z"}]},
			{"match": {"globalAccountId": "a│b"}, "windows": []}
		],
		"default": {"days": ["Sat"], "timeBegin": "20:00:00Z", "timeEnd": "00:00:00Z"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`rules[0].match is empty and matches no runtime`,
		`rules[0].windows[0].end "2026-12-13T08:00:00Z" is not after begin: the window never opens`,
		`rules[1].match.globalAccountID: "a\u2502b" contains '│', which labels cannot contain: the pattern matches fewer runtimes than intended`,
		`default: timeBegin and timeEnd are read as begin and end; lifecycle-manager ignores them and uses the whole day`,
	}
	short := "rules[0].windows[0] is open for 10m0s, but an upgrade needs 20m0s: " +
		"it is used only if it adjoins another window"
	windows, err := Parse([]byte(`{"rules": [{"match": {"plan": "a"}, "windows": [{"days": ["Sat"], "begin": "23:55:00Z", "end": "00:05:00Z"},
		{"begin": "2026-12-08T20:00:00Z", "end": "2026-12-08T20:20:00Z"}]}], "default": {"days": ["Sat"], "begin": "21:00:00Z", "end": "21:00:00Z"}}`))
	if err != nil || fmt.Sprint(windows.ShortWindows(20*time.Minute)) != fmt.Sprint([]string{short}) {
		t.Errorf("got error %v and short windows %q, want %q", err, windows.ShortWindows(20*time.Minute), short)
	}
	if fmt.Sprint(policy.Remarks) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(policy.Remarks, "\n"), strings.Join(want, "\n"))
	}
	if schedule := policy.For(Runtime{Plan: "any"}, 0); len(schedule.Windows) != 0 || schedule.Default == nil ||
		schedule.Check() != nil {
		t.Errorf("rule that matches no runtime: got schedule %+v, want only the default", schedule)
	}
}

func TestParseWindowsRefusesInvalidLists(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"valid list of windows":    {`[{"days":["Sat"],"begin":"21:00:00+02:00","end":"23:00:00+02:00"}]`, ""},
		"empty list":               {`[]`, ""},
		"null instead of a list":   {`null`, "the list of windows must not be null"},
		"object instead of a list": {`{"begin":"x"}`, "cannot unmarshal object"},
		"unknown field":            {`[{"day":["Sat"]}]`, `unknown field "[0].day"`},
		"window that ends before it begins": {
			`[{"begin":"2026-12-20T04:00:00Z","end":"2026-12-13T08:00:00Z"}]`,
			`[0].end "2026-12-13T08:00:00Z" is not after begin`,
		},
		"more windows than the limit": {
			`[` + strings.TrimSuffix(strings.Repeat(`{},`, 105), ",") + `]`, "105 windows, must be at most 104",
		},
		"text larger than the limit": {strings.Repeat(" ", MaxPolicyBytes+1), "at most 262144"},
	} {
		t.Run(name, func(t *testing.T) {
			windows, err := ParseWindows([]byte(c.text))
			if c.want == "" && (err != nil || windows == nil) || c.want != "" &&
				(err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v %v, want %q", windows, err, c.want)
			}
		})
	}
}

func TestInvalidScheduleIsRefused(t *testing.T) {
	good := Window{Days: []string{"Sat"}, Begin: "21:00:00Z", End: "23:00:00Z"}
	for name, c := range map[string]struct {
		schedule Schedule
		want     string
	}{
		"schedule with all fields": {
			Schedule{Windows: []Window{good}, Default: &good, Minimum: metav1.Duration{Duration: time.Hour}}, "",
		},
		"empty schedule": {Schedule{}, ""},
		"empty window":   {Schedule{Windows: []Window{good, {}}}, `windows[1].begin: ""`},
		"empty default":  {Schedule{Default: &Window{}}, `default.begin: ""`},
		"more windows than the limit": {
			Schedule{Windows: make([]Window, MaxWindows+1)}, "windows: 105 windows, must be at most 104",
		},
		"negative minimum": {
			Schedule{Minimum: metav1.Duration{Duration: -1}}, "minimum: -1ns: must be 0 to 24h0m0s",
		},
		"minimum longer than a day": {
			Schedule{Minimum: metav1.Duration{Duration: MaxMinimum + 1}}, "minimum: 24h0m0.000000001s: must be 0 to 24h0m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.schedule.Check(); c.want == "" && err != nil || c.want != "" &&
				(err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRulesDoNotMatchMissingRuntimeAttributes(t *testing.T) {
	policy, err := Parse(
		[]byte(`{"rules":[{"match":{"plan":".*"},"windows":[{"days":["Sat"],"begin":"21:00:00Z","end":"23:00:00Z"}]}],"default":{"days":["Sun"],"begin":"21:00:00Z","end":"23:00:00Z"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if s := policy.For(Runtime{Region: "eu-1"}, 0); len(s.Windows) != 0 {
		t.Errorf("runtime without a plan: got windows %+v, want none", s.Windows)
	}
	if s := policy.For(Runtime{Plan: "any"}, 0); len(s.Windows) != 1 {
		t.Errorf("runtime with a plan: got windows %+v, want one", s.Windows)
	}
}

func TestNestedWindowDoesNotShortenTheOuterWindow(t *testing.T) {
	s := Schedule{Windows: []Window{
		{Begin: "2026-12-08T19:00:00Z", End: "2026-12-08T20:00:00Z"}, {
			Begin: "2026-12-08T18:00:00Z", End: "2026-12-08T22:00:00Z",
		},
	}}
	if got, want := written(s.Next(at(t, "2026-12-08T21:00:00Z"))),
		"2026-12-08T18:00:00Z > 2026-12-08T22:00:00Z"; got != want {
		t.Errorf("after the inner window: got %s, want %s", got, want)
	}
	if got, want := written(s.Next(at(t, "2026-12-08T18:30:00Z"))),
		"2026-12-08T18:00:00Z > 2026-12-08T22:00:00Z"; got != want {
		t.Errorf("before the inner window: got %s, want %s", got, want)
	}
}
