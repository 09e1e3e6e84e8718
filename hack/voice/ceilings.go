package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ceilings contains the maximum rate of each measure. A unit that has no recorded ceiling must meet the target rate.
type ceilings struct {
	header   string
	targets  rates
	recorded map[string]rates // by unit.key
}

// excess describes a measure that exceeds its ceiling in one unit.
type excess struct {
	unit          *unit
	measure       string
	rate, ceiling float64
}

// parseCeilings reads lines such as "comments bundle/trust what=3.5 long=2". The line "target" is required.
func parseCeilings(text string) (ceilings, error) {
	c := ceilings{recorded: map[string]rates{}}
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			c.header += line
			continue
		}
		key, values := fields[0], fields[1:]
		if key != "target" {
			if len(fields) < 3 {
				return c, fmt.Errorf("line %d: must be KIND FOLDER MEASURE=RATE", number)
			}
			key, values = fields[0]+" "+fields[1], fields[2:]
		}
		parsed, err := parseRates(values)
		if err != nil {
			return c, fmt.Errorf("line %d: %w", number, err)
		}
		switch {
		case key == "target":
			c.targets = parsed
		case c.recorded[key] != nil:
			return c, fmt.Errorf("line %d: duplicate %s", number, key)
		default:
			c.recorded[key] = parsed
		}
	}
	for _, m := range measures {
		if _, ok := c.targets[m.name]; !ok {
			return c, fmt.Errorf("line target: add a rate for measure %s", m.name)
		}
	}
	return c, nil
}

func parseRates(values []string) (rates, error) {
	parsed := rates{}
	for _, value := range values {
		name, text, _ := strings.Cut(value, "=")
		if !slices.ContainsFunc(measures, func(m measure) bool { return m.name == name }) {
			return nil, fmt.Errorf("unknown measure %q", name)
		}
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || rate < 0 || math.IsInf(rate, 0) || math.IsNaN(rate) {
			return nil, fmt.Errorf("%q: must be MEASURE=RATE", value)
		}
		parsed[name] = rate
	}
	return parsed, nil
}

// ceilingOf returns the ceiling of one measure in the unit with this key.
func (c ceilings) ceilingOf(key, name string) float64 {
	if recorded, ok := c.recorded[key][name]; ok {
		return max(recorded, c.targets[name])
	}
	return c.targets[name]
}

// check returns the measures that exceed their ceilings, largest excess first. It tolerates one hit above the ceiling,
// because one hit is already a high rate in a small folder.
func (c ceilings) check(units []*unit) []excess {
	var found []excess
	for _, u := range units {
		for _, m := range measures {
			ceiling, allowed := c.ceilingOf(u.key, m.name), c.ceilingOf(u.key, m.name)
			if m.name != longLines {
				allowed = ceiling*float64(u.words)/1000 + 1
			}
			if float64(len(u.places[m.name])) > allowed {
				found = append(found, excess{u, m.name, u.rate(m.name), ceiling})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b excess) int {
		return -cmp.Compare(a.rate/max(a.ceiling, 0.1), b.rate/max(b.ceiling, 0.1))
	})
	return found
}

// lowered returns a copy of the ceilings, lowered to the current rates. It drops ceilings that do not exceed the
// target, and ceilings of deleted folders.
func (c ceilings) lowered(units []*unit) ceilings {
	next := ceilings{header: c.header, targets: c.targets, recorded: map[string]rates{}}
	for _, u := range units {
		kept := rates{}
		for name, recorded := range c.recorded[u.key] {
			if rate := min(recorded, roundUp(u.rate(name))); rate > c.targets[name] {
				kept[name] = rate
			}
		}
		if len(kept) > 0 {
			next.recorded[u.key] = kept
		}
	}
	return next
}

func roundUp(rate float64) float64 { return math.Ceil(rate*10) / 10 }

// String returns the ceilings in the format that parseCeilings reads.
func (c ceilings) String() string {
	var b strings.Builder
	b.WriteString(c.header)
	writeRates(&b, "target", c.targets)
	for _, key := range slices.Sorted(maps.Keys(c.recorded)) {
		writeRates(&b, key, c.recorded[key])
	}
	return b.String()
}

func writeRates(b *strings.Builder, key string, values rates) {
	b.WriteString(key)
	for _, m := range measures {
		if rate, ok := values[m.name]; ok {
			fmt.Fprintf(b, " %s=%s", m.name, strconv.FormatFloat(rate, 'f', -1, 64))
		}
	}
	b.WriteString("\n")
}
