package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kyma-pull/kyma-pull/bundle"
	"github.com/kyma-pull/kyma-pull/bundle/store"
)

// A fleet's registry can move. A bundle's settings then announce the next location, and the agent polls both locations.
// It uses the location with the newest bundle, even after a restart.

// location contains the fleet registry's current location, and the announced next location.
type location struct {
	// current is the current location.
	current store.Store
	// announced is the location that the last accepted bundle announces. It is nil if the fleet does not move.
	announced store.Store
	// skippedUntil contains the time of the next attempt to read each location that did not respond.
	skippedUntil map[string]time.Time
	// responseTimeout limits the time until a location that is not the current one responds.
	responseTimeout time.Duration
}

const (
	otherLocationTimeout = 10 * time.Second
	// skipInterval is the retry interval for a location that did not respond and is not the current one.
	skipInterval = 10 * time.Minute
)

// savedLocation is the fleet registry's location that the agent saves in its state. Installed is the configured
// location, and Current is the location that the agent uses. If an operator configures a location other than Installed,
// the agent ignores Current.
type savedLocation struct {
	Installed string `json:"installed"`
	Current   string `json:"used"`
}

// Location returns the current location for bundles and reports.
func (p *Puller) Location() store.Store { return p.location.current }

func (p *Puller) encodeLocation() []byte {
	if p.location.current.String() == p.ConfiguredLocation.String() {
		return nil
	}
	data, _ := json.Marshal(savedLocation{Installed: p.ConfiguredLocation.String(), Current: p.location.current.String()})
	return data
}

func (p *Puller) restoreLocation(state map[string][]byte) error {
	p.location.current = p.ConfiguredLocation
	if len(state[stateLocation]) == 0 {
		return nil
	}
	var saved savedLocation
	err := json.Unmarshal(state[stateLocation], &saved)
	if err == nil && saved.Installed == p.ConfiguredLocation.String() {
		var used store.Store
		if used, err = p.openStore(saved.Current, p.Registries); err == nil {
			p.location.current = used
			p.shareCredentials()
		}
	}
	if err != nil {
		return fmt.Errorf("read Secret %s/%s: %s: %w", p.Namespace, StateSecret, stateLocation, err)
	}
	return nil
}

// shareCredentials allows requests to the hosts of the current and the announced location to use the credentials for
// the configured registry's host. It skips hosts that have their own credentials.
func (p *Puller) shareCredentials() {
	hostOf := func(s store.Store) string {
		host, _, _ := strings.Cut(s.String(), "/")
		return host
	}
	var hosts []string
	for _, s := range []store.Store{p.location.current, p.location.announced} {
		if s != nil && hostOf(s) != hostOf(p.ConfiguredLocation) {
			hosts = append(hosts, hostOf(s))
		}
	}
	p.Registries.ShareCredentials(hostOf(p.ConfiguredLocation), hosts...)
}

// openAnnounced reads the next location from the last accepted bundle's settings and opens it. It does nothing if the
// configured location is a folder.
func (p *Puller) openAnnounced() error {
	if p.Registries == nil || store.IsLayout(p.ConfiguredLocation) {
		return nil
	}
	p.location.announced = nil
	defer p.shareCredentials()
	next := p.current.State.Settings.NextRegistry
	if next == nil {
		return p.Registries.TrustAlso(nil)
	}
	if err := p.Registries.TrustAlso([]byte(next.CA)); err != nil || next.Location == "" {
		return err
	}
	var err error
	p.location.announced, err = p.openStore(next.Location, p.Registries)
	return err
}

// Pull reads the current location and accepts a newer bundle. It reports whether the last accepted bundle changed. The
// error is a *refusal.Error, or an error from reading the registry.
//
// If the current location has no newer bundle, Pull also reads the announced and the configured location. It switches
// to a location with a newer bundle. If the current location cannot be read, it switches to the announced location if
// that can be read. It switches to the configured location only for a newer bundle, because the host of a former
// registry can serve a copy of the last accepted bundle.
func (p *Puller) Pull(ctx context.Context) (bool, error) {
	changed, err := p.pullCurrent(ctx)
	if changed || ctx.Err() != nil {
		return changed, err
	}
	used, failed := p.location.current, err != nil
	for _, other := range p.otherLocations(failed) {
		if changed, ok := p.pullFrom(ctx, other, failed); ok {
			return changed, nil
		}
	}
	p.location.current = used
	return false, err
}

// otherLocations returns the announced and the configured location, except the current one. If failed is false, the
// current location could be read, and otherLocations omits locations that did not respond recently.
func (p *Puller) otherLocations(failed bool) []store.Store {
	var all []store.Store
	for _, s := range []store.Store{p.location.announced, p.ConfiguredLocation} {
		if s == nil || s.String() == p.location.current.String() ||
			slices.ContainsFunc(all, func(o store.Store) bool { return o.String() == s.String() }) ||
			!failed && p.Now().Before(p.location.skippedUntil[s.String()]) {
			continue
		}
		all = append(all, s)
	}
	return all
}

// pullFrom reads a location that is not the current one. ok is true if pullFrom has made it the current location.
func (p *Puller) pullFrom(ctx context.Context, other store.Store, failed bool) (changed, ok bool) {
	used, refused := p.location.current, slices.Clone(p.refused)
	p.location.current = other
	err := p.awaitResponse(ctx)
	if err == nil {
		changed, err = p.pullCurrent(ctx)
	}
	if err == nil && (changed || failed && other.String() != p.ConfiguredLocation.String()) {
		if !changed {
			// If the bundle changed, pullCurrent has already saved the location.
			err = p.Save(ctx)
		}
		if err == nil {
			p.location.skippedUntil = nil
			p.shareCredentials()
			return changed, true
		}
	}
	p.location.current, p.refused = used, refused
	if errors.Is(err, context.DeadlineExceeded) {
		if p.location.skippedUntil == nil {
			p.location.skippedUntil = map[string]time.Time{}
		}
		p.location.skippedUntil[other.String()] = p.Now().Add(skipInterval)
	}
	return false, false
}

// awaitResponse looks up the newest bundle in the current location, within responseTimeout. The limit does not cover
// the documents, because reading all of them over a slow link can take longer.
func (p *Puller) awaitResponse(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, p.location.responseTimeout)
	defer cancel()
	repository, err := p.location.current.Reading(limited, bundle.DesiredRepository(p.Trust.Runtime))
	if err == nil {
		_, err = store.Head(limited, repository, bundle.TagDesired)
	}
	return err
}
