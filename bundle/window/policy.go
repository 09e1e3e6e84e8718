package window

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kyma-pull/kyma-pull/bundle/strict"
)

// Policy assigns maintenance windows to runtimes. The zero value assigns no windows.
type Policy struct {
	// Remarks lists the parts of the policy file that are ignored, as text for operators.
	Remarks []string

	rules    []rule
	fallback *Window
}

// Runtime contains the runtime attributes that rules compare. A rule never matches an empty attribute.
type Runtime struct{ Plan, Region, PlatformRegion, GlobalAccountID string }

type rule struct {
	plan, region, platformRegion, globalAccountID *regexp.Regexp
	windows                                       []Window
}

// Limits for a policy file. Real policies are much smaller.
const (
	MaxPolicyBytes  = 256 << 10
	maxRules        = 1000
	maxPatternBytes = 1 << 10
	// maxPatternSteps limits the size of a compiled regular expression. A short pattern such as x{1000}{1000} can
	// compile to a huge program.
	maxPatternSteps = 10_000
	maxDepth        = 8
)

// The format of a policy file. Kyma's existing files use both globalAccountID and globalAccountId, and can contain
// timeBegin and timeEnd.
type (
	policyFile struct {
		Rules   []ruleFile  `json:"rules"`
		Default *windowFile `json:"default"`
	}
	ruleFile struct {
		Match   matchFile    `json:"match"`
		Windows []windowFile `json:"windows"`
	}
	matchFile struct {
		GlobalAccountID    string `json:"globalAccountID"`
		GlobalAccountOther string `json:"globalAccountId"`
		Plan               string `json:"plan"`
		Region             string `json:"region"`
		PlatformRegion     string `json:"platformRegion"`
	}
	windowFile struct {
		Window
		TimeBegin string `json:"timeBegin"`
		TimeEnd   string `json:"timeEnd"`
	}
)

// Parse parses a maintenance policy. Errors name the field.
func Parse(data []byte) (Policy, error) {
	var policy Policy
	if len(data) > MaxPolicyBytes {
		return policy, fmt.Errorf("the policy is %d bytes, must be at most %d", len(data), MaxPolicyBytes)
	}
	var file policyFile
	if err := strict.JSON(data, &file, maxDepth); err != nil {
		return policy, err
	}
	if len(file.Rules) > maxRules {
		return policy, fmt.Errorf("rules: %d entries, must be at most %d", len(file.Rules), maxRules)
	}
	for i, r := range file.Rules {
		if err := policy.addRule(fmt.Sprintf("rules[%d]", i), r); err != nil {
			return Policy{}, err
		}
	}
	if file.Default == nil {
		policy.addRemark(
			"default is required: without it, a runtime without a matching rule never gets upgrades with downtime")
		return policy, nil
	}
	windows, err := policy.windows("default", []windowFile{*file.Default}, func(int) string { return "default" })
	if err != nil {
		return Policy{}, err
	}
	if len(windows) > 0 {
		policy.fallback = &windows[0]
	}
	return policy, nil
}

// ParseWindows parses a JSON list of windows. Errors name the field.
func ParseWindows(data []byte) ([]Window, error) {
	if len(data) > MaxPolicyBytes {
		return nil, fmt.Errorf("the list of windows is %d bytes, must be at most %d", len(data), MaxPolicyBytes)
	}
	windows := []Window{}
	if err := strict.JSON(data, &windows, maxDepth); err != nil {
		return nil, err
	}
	if windows == nil {
		return nil, errors.New("the list of windows must not be null; use [] for no windows")
	}
	return windows, checkAll("", windows)
}

// For returns a runtime's maintenance schedule with the given Minimum. The windows come from the first rule that
// matches the runtime.
func (p Policy) For(runtime Runtime, minimum time.Duration) Schedule {
	schedule := Schedule{Windows: []Window{}, Default: p.fallback, Minimum: metav1.Duration{Duration: minimum}}
	for _, r := range p.rules {
		if r.matches(runtime) {
			schedule.Windows = r.windows
			break
		}
	}
	return schedule
}

// ShortWindows returns a message for each window that is shorter than the minimum. The message names the field of the
// window.
func (p Policy) ShortWindows(minimum time.Duration) (all []string) {
	check := func(field string, w Window) {
		t, err := w.parse()
		if err != nil {
			return
		}
		length := t.end - t.begin
		if t.fixedSpan != nil {
			length = t.fixedSpan.End.Sub(t.fixedSpan.Begin)
		}
		if length < minimum {
			all = append(all,
				fmt.Sprintf("%s is open for %s, but an upgrade needs %s: it is used only if it adjoins another window",
					field, length, minimum))
		}
	}
	for i, r := range p.rules {
		for j, w := range r.windows {
			check(fmt.Sprintf("rules[%d].windows[%d]", i, j), w)
		}
	}
	if p.fallback != nil {
		check("default", *p.fallback)
	}
	return all
}

// matches reports whether at least one of the rule's patterns matches the runtime, as in Kyma.
func (r rule) matches(runtime Runtime) bool {
	fits := func(pattern *regexp.Regexp, value string) bool {
		return pattern != nil && value != "" && pattern.MatchString(value)
	}
	return fits(r.globalAccountID, runtime.GlobalAccountID) || fits(r.plan, runtime.Plan) ||
		fits(r.region, runtime.Region) || fits(r.platformRegion, runtime.PlatformRegion)
}

func (p *Policy) addRemark(format string, args ...any) {
	p.Remarks = append(p.Remarks, fmt.Sprintf(format, args...))
}

func (p *Policy) addRule(field string, file ruleFile) error {
	match := file.Match
	if match.GlobalAccountID != "" && match.GlobalAccountOther != "" {
		return fmt.Errorf("%s.match has both globalAccountID and globalAccountId: use one of them", field)
	}
	match.GlobalAccountID += match.GlobalAccountOther
	var next rule
	for _, part := range []struct {
		name, text string
		to         **regexp.Regexp
	}{
		{"globalAccountID", match.GlobalAccountID, &next.globalAccountID}, {"plan", match.Plan, &next.plan},
		{"region", match.Region, &next.region}, {"platformRegion", match.PlatformRegion, &next.platformRegion},
	} {
		if part.text == "" {
			continue
		}
		pattern, err := compile(part.text)
		if err != nil {
			return fmt.Errorf("%s.match.%s: %w", field, part.name, err)
		}
		if i := strings.IndexFunc(part.text, func(r rune) bool { return r > unicode.MaxASCII }); i >= 0 {
			p.addRemark(
				"%s.match.%s: %+q contains %q, which labels cannot contain: the pattern matches fewer runtimes than intended",
				field, part.name, part.text, []rune(part.text[i:])[0])
		}
		*part.to = pattern
	}
	if match == (matchFile{}) {
		p.addRemark("%s.match is empty and matches no runtime", field)
	}
	windows, err := p.windows(field+".windows", file.Windows, func(i int) string {
		return fmt.Sprintf("%s.windows[%d]", field, i)
	})
	if err != nil {
		return err
	}
	next.windows = windows
	p.rules = append(p.rules, next)
	return nil
}

func compile(text string) (*regexp.Regexp, error) {
	if len(text) > maxPatternBytes {
		return nil, fmt.Errorf("the pattern is %d bytes, must be at most %d", len(text), maxPatternBytes)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	steps, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(steps.Inst) > maxPatternSteps {
		return nil, fmt.Errorf("the pattern is too complex: %d steps, must be at most %d", len(steps.Inst),
			maxPatternSteps)
	}
	return regexp.Compile(text)
}

// windows parses a rule's windows. It omits a window that never opens, and adds a remark about it.
func (p *Policy) windows(field string, files []windowFile, at func(int) string) ([]Window, error) {
	if len(files) > MaxWindows {
		return nil, fmt.Errorf("%s: %d windows, must be at most %d", field, len(files), MaxWindows)
	}
	windows := make([]Window, 0, len(files))
	for i, file := range files {
		w := file.Window
		if file.TimeBegin != "" || file.TimeEnd != "" {
			if w.Begin != "" || w.End != "" {
				return nil, fmt.Errorf("%s has begin or end together with timeBegin or timeEnd: use begin and end",
					at(i))
			}
			w.Begin, w.End = file.TimeBegin, file.TimeEnd
			p.addRemark(
				"%s: timeBegin and timeEnd are read as begin and end; lifecycle-manager ignores them and uses the "+
					"whole day", at(i))
		}
		err := w.Check()
		if errors.Is(err, errNeverOpen) {
			p.addRemark("%s.%v", at(i), err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s.%w", at(i), err)
		}
		windows = append(windows, w)
	}
	return windows, nil
}
