package round

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

const pollInterval = time.Minute

// results contains the result of each action. An action without an entry returns Yes.
type results map[Action]Result

// run executes a round. observe sets the facts that each action reads.
func run(f Facts, r results, observe func(*Facts, Action)) (Facts, State, []Action) {
	var taken []Action
	for range 30 {
		state, action := Decide(f)
		if action == End {
			return f, state, taken
		}
		taken = append(taken, action)
		result := r[action]
		if result == "" {
			result = Yes
		}
		switch action {
		case CheckBootstrap:
			f.Bootstrap = result
		case LoadState:
			f.Loaded = result
		case FindTwin:
			f.Twin = result
		case ImportFiles:
			f.Imported = result
		case Pull:
			f.Pulled = result
		case ReadChanges:
			f.Changes = result
		case RestoreDefinitions:
			f.Definitions = result
		case RestoreObjects:
			f.Restored = result
		case ReadRuntime:
			f.Runtime = result
		case FetchContent:
			f.Content = result
		case WriteSecrets:
			f.Secrets = result
		case ApplyFetched, ApplyAll:
			f.Applied = result
		case Observe:
			f.Observed = result
		case Prune:
			f.Pruned = result
		case UpdateStatus:
			f.Status = result
		case SendReport:
			f.Report = result
		case UpgradeImage:
			f.Image = result
		}
		if observe != nil {
			observe(&f, action)
		}
	}
	return f, "", taken
}

func TestRoundActionsDependOnFacts(t *testing.T) {
	idle := Facts{
		Memory: Memory{NextPoll: noon.Add(20 * time.Second), NextDefinitions: noon.Add(time.Hour), IsProven: true},
		Now:    noon, HasBundle: true,
	}
	with := func(change func(*Facts)) Facts {
		f := idle
		change(&f)
		return f
	}
	none := results{CheckBootstrap: No, FindTwin: No}
	answers := func(action Action, result Result) results {
		return results{CheckBootstrap: No, FindTwin: No, action: result}
	}
	restore := []Action{ReadChanges, RestoreObjects, ReadRuntime}
	apply := append(slices.Clone(restore), FetchContent, WriteSecrets, ApplyAll)
	report := []Action{Observe, Prune, UpdateStatus, SendReport}
	start, poll := []Action{CheckBootstrap, LoadState}, []Action{FindTwin, Pull}
	for name, c := range map[string]struct {
		facts Facts
		world results
		state State
		taken []Action
		delay time.Duration
	}{
		"first round of a process": {
			Facts{Now: noon, IsFirst: true, HasBundle: true}, none, Applied,
			slices.Concat(start, poll, []Action{ReadChanges, RestoreDefinitions}, apply[1:], report),
			time.Minute,
		},
		"bootstrap Secret changed": {
			with(func(f *Facts) { f.IsBootstrapChanged = true }), answers(CheckBootstrap, Yes), Restarting,
			[]Action{CheckBootstrap}, 0,
		},
		"bootstrap Secret written without a change": {
			with(func(f *Facts) { f.IsBootstrapChanged = true }), none, Applied,
			slices.Concat([]Action{CheckBootstrap}, apply, report), 20 * time.Second,
		},
		"state of the previous process is unreadable": {
			Facts{Now: noon, IsFirst: true}, answers(LoadState, No), Starting, start, loadInterval,
		},
		"nothing changed": {idle, none, Applied, slices.Concat(apply, report), 20 * time.Second},
		"poll is due": {
			with(func(f *Facts) { f.NextPoll = noon }), none, Applied, slices.Concat(poll, apply, report), time.Minute,
		},
		"notification about a new bundle": {
			with(func(f *Facts) { f.IsNotified = true }), none, Applied, slices.Concat(poll, apply, report), time.Minute,
		},
		"registry is down": {
			with(func(f *Facts) { f.IsNotified = true }), answers(Pull, No), Applied, slices.Concat(poll, apply, report),
			time.Minute,
		},
		"import folder": {
			with(func(f *Facts) { f.IsNotified, f.HasFolder = true, true }), none, Applied,
			slices.Concat([]Action{FindTwin, ImportFiles, Pull}, apply, report), time.Minute,
		},
		"another agent has the same key": {
			with(func(f *Facts) { f.IsNotified, f.HasFolder = true, true }), answers(FindTwin, Yes), Applied,
			slices.Concat([]Action{FindTwin, ImportFiles}, apply, report), time.Minute,
		},
		"definitions changed": {
			with(func(f *Facts) { f.AreDefinitionsChanged = true }), none, Applied,
			slices.Concat([]Action{ReadChanges, RestoreDefinitions}, apply[1:], report), 20 * time.Second,
		},
		"deleted definition is not served yet": {
			with(func(f *Facts) { f.IsKindMissing, f.RestoreFailures = true, 1 }), answers(RestoreDefinitions, No), Applied,
			slices.Concat([]Action{ReadChanges, RestoreDefinitions}, apply[1:], report), 2 * time.Second,
		},
		"deleted object is not restored yet": {
			idle, answers(RestoreObjects, No), Applied, slices.Concat(apply, report), time.Second,
		},
		"API server does not return the Kyma": {idle, answers(ReadRuntime, No), Failed, restore, time.Second},
		"API server does not return the state for the report": {
			idle, answers(Observe, No), Failed, append(slices.Clone(apply), Observe), time.Second,
		},
		"repeated failure": {
			with(func(f *Facts) { f.Failures = 2 }), answers(UpdateStatus, No), Applied, slices.Concat(apply, report),
			4 * time.Second,
		},
		"retry later than the next poll": {
			with(func(f *Facts) { f.Failures = 30 }), answers(UpdateStatus, No), Applied, slices.Concat(apply, report),
			20 * time.Second,
		},
		"content store failed": {
			idle, answers(FetchContent, No), Blocked, append(slices.Clone(restore), FetchContent), time.Second,
		},
		"content is being fetched": {
			idle, answers(FetchContent, More), Fetching,
			append(slices.Clone(restore), FetchContent, WriteSecrets, ApplyFetched), MinDelay,
		},
		"no bundle yet": {
			with(func(f *Facts) { f.HasBundle = false }), none, Unassigned, slices.Concat(restore, report), 20 * time.Second,
		},
		"bundle removes all modules": {
			with(func(f *Facts) { f.IsDeleting = true }), none, Applied,
			slices.Concat(restore, []Action{FetchContent, ApplyAll}, report), 20 * time.Second,
		},
		"runtime returned to lifecycle-manager": {
			with(func(f *Facts) { f.IsReleased, f.AreDefinitionsChanged = true, true }), none, Released,
			append(slices.Clone(apply), Observe, Prune, SendReport), 20 * time.Second,
		},
		"unproven image": {
			with(func(f *Facts) {
				f.ManagesImage, f.IsProven, f.NextPoll = true, false, noon.Add(time.Hour)
			}), answers(UpgradeImage, No), Applied,
			slices.Concat(apply, report, []Action{UpgradeImage}), trialInterval,
		},
		"proven image without a poll": {
			with(func(f *Facts) { f.ManagesImage = true }), none, Applied, slices.Concat(apply, report), 20 * time.Second,
		},
		"proven image after a postponed poll": {
			with(func(f *Facts) { f.ManagesImage, f.IsPostponed = true, true }), none, Applied,
			slices.Concat(apply, report, []Action{UpgradeImage}), 20 * time.Second,
		},
		"action requests an earlier round": {
			with(func(f *Facts) { f.Wake(0, time.Hour, 3*time.Second) }), none, Applied, slices.Concat(apply, report),
			3 * time.Second,
		},
		"overdue wake": {
			with(func(f *Facts) { f.Wake(time.Nanosecond) }), none, Applied, slices.Concat(apply, report), MinDelay,
		},
	} {
		f, state, taken := run(c.facts, c.world, nil)
		_, delay := Finish(f, state, pollInterval, noon)
		require.Equal(t, c.state, state, name)
		require.Equal(t, c.taken, taken, name)
		require.Equal(t, c.delay, delay, name)
	}
}

// runtime is a model of a runtime and its registry over several rounds.
type runtime struct {
	memory                      Memory
	now                         time.Time
	isFirst                     bool
	accepted, released, deleted bool
	// mustUpgrade is true from a poll until the agent has reconciled its image.
	mustUpgrade           bool
	hasFolder, hasControl bool
}

// play runs a random round and returns the state at its end.
func (r *runtime) play(t *rapid.T) State {
	flip := func(label string) bool { return rapid.Bool().Draw(t, label) }
	world := results{}
	for _, action := range []Action{
		CheckBootstrap, LoadState, FindTwin, Pull, RestoreDefinitions, RestoreObjects, ReadRuntime, FetchContent, ApplyAll,
		Observe, Prune, UpdateStatus,
	} {
		world[action] = rapid.SampledFrom([]Result{Yes, No}).Draw(t, string(action))
	}
	if flip("fetch continues") {
		world[FetchContent] = More
	}
	f := Facts{
		Memory: r.memory, Now: r.now, IsFirst: r.isFirst, IsBootstrapChanged: flip("bootstrap"), IsNotified: flip("notified"),
		HasFolder: r.hasFolder, ManagesImage: r.hasControl,
	}
	isDue := f.IsNotified || !r.now.Before(r.memory.NextPoll)
	f, state, taken := run(f, world, func(f *Facts, action Action) {
		switch action {
		case Pull:
			if world[Pull] == Yes && flip("newer bundle") { // otherwise, the newest bundle is missing, refused or unchanged
				r.accepted, r.released, r.deleted = true, flip("released"), flip("deleted")
			}
		case ReadChanges:
			f.AreDefinitionsChanged, f.IsReleased = flip("definitions"), r.released
		case ReadRuntime:
			f.HasBundle, f.IsDeleting = r.accepted, r.deleted
		case Observe:
			f.Wake(time.Duration(rapid.IntRange(0, 120).Draw(t, "wake")) * time.Second)
		case FindTwin:
			r.mustUpgrade = true
		case UpgradeImage:
			f.IsProven, r.mustUpgrade = flip("proven"), false
		}
	})
	took := func(action Action) bool { return slices.Contains(taken, action) }
	applied := took(ApplyAll) || took(ApplyFetched)
	for rule, broken := range map[string]bool{
		"every round ends in a state": state == "",
		"each action is taken at most once": len(
			slices.Compact(slices.Sorted(slices.Values(taken)))) != len(taken),
		"a poll waits for the previous state":            r.isFirst && world[LoadState] == No && took(FindTwin),
		"a due poll is not skipped":                      isDue != took(FindTwin) && state != Restarting && state != Starting,
		"a second agent stops the acceptance of bundles": took(Pull) && world[FindTwin] == Yes,
		"only an accepted bundle is applied":             applied && !r.accepted,
		"the content store must work for an apply":       applied && world[FetchContent] == No,
		"removals wait for all content":                  took(ApplyAll) && world[FetchContent] != Yes,
		"Secrets are not written during a deletion":      took(WriteSecrets) && r.deleted,
		"a report describes a completely applied bundle": took(SendReport) && r.accepted && !took(ApplyAll),
		"a complete round sends a report": took(SendReport) !=
			(state == Applied || state == Released || state == Unassigned),
		"a released runtime belongs to lifecycle-manager": r.released && (took(UpdateStatus) || took(RestoreDefinitions)),
		"each poll reconciles the image, possibly later":  r.hasControl && r.mustUpgrade && took(SendReport),
	} {
		if broken {
			t.Fatalf("%s: %+v with results %v ends in state %q after %v", rule, f, world, state, taken)
		}
	}
	end := r.now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "duration")) * time.Second)
	memory, delay := Finish(f, state, pollInterval, end)
	if state == Restarting {
		r.memory, r.isFirst, r.now = Memory{}, true, end // another process starts
		return state
	}
	if latest := max(memory.NextPoll.Sub(end), MinDelay); delay < MinDelay || state != Starting && delay > latest {
		t.Fatalf("the next round starts after %s, want at most %s: %+v in state %s", delay, latest, f, state)
	}
	if failed := memory.Failures > 0; failed && delay > maxBackoff || failed != (state == Failed || state == Blocked ||
		took(ApplyAll) && world[ApplyAll] == No || took(Prune) && world[Prune] == No ||
		took(UpdateStatus) && world[UpdateStatus] == No) && state != Starting {
		t.Fatalf("%d failures and a delay of %s after %v with results %v", memory.Failures, delay, taken, world)
	}
	r.memory, r.isFirst = memory, r.isFirst && state == Starting
	// An event can start the next round before the timer.
	r.now = end.Add(min(delay, time.Duration(rapid.IntRange(0, 200).Draw(t, "event"))*time.Second))
	return state
}

func TestRandomHistoriesKeepGuarantees(t *testing.T) {
	seen := map[State]bool{}
	rapid.Check(t, func(t *rapid.T) {
		r := runtime{
			now: noon, isFirst: true, hasFolder: rapid.Bool().Draw(t, "folder"),
			hasControl: rapid.Bool().Draw(t, "Deployment"),
		}
		for range rapid.IntRange(5, 40).Draw(t, "rounds") {
			seen[r.play(t)] = true
		}
	})
	require.Len(t, seen, 8, "the histories must reach all states")
}
