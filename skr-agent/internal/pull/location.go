package pull

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// A fleet's registry can move. The settings of a bundle then announce the next location, and the agent polls both
// locations. It uses the location with the newest bundle, also after a restart.

// location contains the current location of the fleet's registry, and the announced next location.
type location struct {
	// used is the current location.
	used store.Store
	// next is the location that the last accepted bundle announces. Nil if the fleet does not move.
	next store.Store
	// skipped contains the time of the next attempt to read each location that did not respond.
	skipped map[string]time.Time
	// patience limits the time to read a location that is not the current one.
	patience time.Duration
}

const (
	otherLocationTimeout = 10 * time.Second
	// skipOther is the retry interval for a location that did not respond and is not the current one.
	skipOther = 10 * time.Minute
)

// savedLocation is the saved current location. It is valid only while the configured location is still Installed, so
// that an operator can replace it with a new configured location.
type savedLocation struct {
	Installed string `json:"installed"`
	Used      string `json:"used"`
}

// Location returns the current location for bundles and reports.
func (p *Puller) Location() store.Store { return p.location.used }

func (p *Puller) savedLocation() []byte {
	if p.location.used.String() == p.Place.String() {
		return nil
	}
	data, _ := json.Marshal(savedLocation{Installed: p.Place.String(), Used: p.location.used.String()})
	return data
}

func (p *Puller) restoreLocation(state map[string][]byte) error {
	p.location.used = p.Place
	if len(state[stateLocation]) == 0 {
		return nil
	}
	var saved savedLocation
	err := json.Unmarshal(state[stateLocation], &saved)
	if err == nil && saved.Installed == p.Place.String() {
		var used store.Store
		if used, err = p.openStore(saved.Used, p.Registries); err == nil {
			p.location.used = used
			p.lend()
		}
	}
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %s: %w", p.Namespace, StateSecret, stateLocation, err)
	}
	return nil
}

// lend uses the credentials of the configured registry host also for the hosts of the current and the announced
// location. It skips hosts that have their own credentials.
func (p *Puller) lend() {
	hostOf := func(s store.Store) string {
		host, _, _ := strings.Cut(s.String(), "/")
		return host
	}
	var hosts []string
	for _, s := range []store.Store{p.location.used, p.location.next} {
		if s != nil && hostOf(s) != hostOf(p.Place) {
			hosts = append(hosts, hostOf(s))
		}
	}
	p.Registries.Lend(hostOf(p.Place), hosts...)
}

// announced reads the next location from the settings of the last accepted bundle and opens it. It does nothing if the
// configured location is a folder.
func (p *Puller) announced() error {
	if p.Registries == nil || store.IsLayout(p.Place) {
		return nil
	}
	p.location.next = nil
	defer p.lend()
	next := p.current.State.Settings.NextRegistry
	if next == nil {
		return p.Registries.TrustAlso(nil)
	}
	if err := p.Registries.TrustAlso([]byte(next.CA)); err != nil || next.Location == "" {
		return err
	}
	var err error
	p.location.next, err = p.openStore(next.Location, p.Registries)
	return err
}

// Pull reads the current location and accepts a newer bundle. It reports whether the last accepted bundle changed. The
// error is a *refusal.Error, or the error of reading the registry.
//
// If the current location has no newer bundle, Pull also reads the announced and the configured location. It switches
// to a location with a newer bundle. If the current location cannot be read, it switches to a location that can be
// read.
func (p *Puller) Pull(ctx context.Context) (bool, error) {
	changed, err := p.pull(ctx)
	if changed || ctx.Err() != nil {
		return changed, err
	}
	used, failed := p.location.used, err != nil
	for _, other := range p.others(failed) {
		if changed, ok := p.pullFrom(ctx, other, failed); ok {
			return changed, nil
		}
	}
	p.location.used = used
	return false, err
}

// others returns the announced and the configured location, except the current one. If failed is false, the current
// location could be read, and others omits locations that did not respond recently.
func (p *Puller) others(failed bool) []store.Store {
	var all []store.Store
	for _, s := range []store.Store{p.location.next, p.Place} {
		if s == nil || s.String() == p.location.used.String() ||
			slices.ContainsFunc(all, func(o store.Store) bool { return o.String() == s.String() }) ||
			!failed && p.Now().Before(p.location.skipped[s.String()]) {
			continue
		}
		all = append(all, s)
	}
	return all
}

// pullFrom reads a location that is not the current one. ok is true if pullFrom has made it the current location.
func (p *Puller) pullFrom(ctx context.Context, other store.Store, failed bool) (changed, ok bool) {
	limited, cancel := context.WithTimeout(ctx, p.location.patience)
	defer cancel()
	used, refused := p.location.used, slices.Clone(p.refused)
	p.location.used = other
	changed, err := p.pull(limited)
	if err == nil && (changed || failed) {
		if !changed {
			// If the bundle changed, the method pull has already saved the location.
			err = p.Save(ctx)
		}
		if err == nil {
			p.location.skipped = nil
			p.lend()
			return changed, true
		}
	}
	p.location.used, p.refused = used, refused
	if err != nil && limited.Err() != nil {
		if p.location.skipped == nil {
			p.location.skipped = map[string]time.Time{}
		}
		p.location.skipped[other.String()] = p.Now().Add(skipOther)
	}
	return false, false
}
