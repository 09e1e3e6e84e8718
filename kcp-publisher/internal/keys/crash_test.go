package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kyma-pull/kyma-pull/bundle/trust"
	"github.com/kyma-pull/kyma-pull/hack/suite"
)

// Environment variables that configure the process to kill.
const (
	killedFolder  = "KYMA_PULL_TEST_KILLED_FOLDER"
	killedCommand = "KYMA_PULL_TEST_KILLED_COMMAND"
	killedAt      = "KYMA_PULL_TEST_KILLED_AT"
)

var ctx = context.Background()

func TestMain(m *testing.M) {
	if os.Getenv(killedFolder) == "" {
		os.Exit(m.Run())
	}
	left, err := strconv.Atoi(os.Getenv(killedAt))
	f := Folder{Dir: os.Getenv(killedFolder), step: func(string) {
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}}
	if err == nil {
		err = commands[os.Getenv(killedCommand)].run(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

type command struct {
	// before prepares the folder. If it is nil, the folder does not exist.
	before  func(Folder) error
	run     func(Folder) error
	version int64
}

func changed(f Folder, rootKeys func() []string, change func(*Change) error) error {
	return f.WithLock(ctx, func(f Folder) error {
		c, err := f.Change(until)
		if err != nil {
			return err
		}
		if err := change(c); err != nil {
			return err
		}
		if rootKeys == nil {
			rootKeys = f.RootKeyFiles
		}
		_, err = c.Finish(rootKeys())
		return err
	})
}

func rotated(role string, dropOld bool) func(Folder) error {
	return func(f Folder) error {
		return changed(f, nil, func(c *Change) error { return c.Rotate(ctx, role, "", dropOld) })
	}
}

// drafted rotates the publisher key and signs with only one of two required root keys, so the result is a draft.
func drafted(f Folder) error { return draftedRole(f, trust.RolePublisher) }

func draftedEnroll(f Folder) error { return draftedRole(f, trust.RoleEnroll) }

func draftedRole(f Folder, role string) error {
	return changed(f, func() []string { return []string{f.path(FileRootKey)} }, func(c *Change) error {
		return c.Rotate(ctx, role, "", true)
	})
}

func begun(keys, threshold int) func(Folder) error {
	return func(f Folder) error {
		_, err := f.Init(InitOptions{Epoch: 1, RootKeys: keys, Threshold: threshold, Expires: until})
		return err
	}
}

func inTurn(steps ...func(Folder) error) func(Folder) error {
	return func(f Folder) error {
		for _, step := range steps {
			if err := step(f); err != nil {
				return err
			}
		}
		return nil
	}
}

var commands = map[string]command{
	"init": {nil, begun(1, 1), 1},
	"rotate": {
		begun(1, 1), func(f Folder) error { return changed(f, nil, func(*Change) error { return nil }) }, 2,
	},
	"rotate publisher": {begun(1, 1), rotated(trust.RolePublisher, false), 2},
	"rotate publisher twice": {
		inTurn(begun(1, 1), rotated(trust.RolePublisher, false)), rotated(trust.RolePublisher, false), 3,
	},
	"rotate publisher and drop the old key": {begun(1, 1), rotated(trust.RolePublisher, true), 2},
	"rotate enroll and drop the old key":    {begun(1, 1), rotated(trust.RoleEnroll, true), 2},
	"rotate root": {
		begun(1, 1), func(f Folder) error { return changed(f, nil, func(c *Change) error { return c.RotateRoot("") }) },
		2,
	},
	"rotate token": {
		begun(1, 1), func(f Folder) error { _, err := f.RotateToken(ctx, false); return err }, 1,
	},
	"rotate into a draft":        {begun(2, 2), drafted, 1},
	"rotate into a second draft": {inTurn(begun(2, 2), drafted), draftedEnroll, 1},
	"sign": {
		inTurn(begun(2, 2), drafted),
		func(f Folder) error { _, err := f.Sign(f.path(draftName(2)), f.RootKeyFiles()); return err }, 2,
	},
	"revoke with a new floor and epoch": {inTurn(begun(1, 1), rotated(trust.RolePublisher, false)), revokedOther, 3},
}

func revokedOther(f Folder) error {
	return changed(f, nil, func(c *Change) error {
		inUse := c.inUse(ctx, trust.RolePublisher)
		for _, listed := range c.root.Publishers() {
			if listed != inUse {
				c.Epoch()
				return errors.Join(c.Floor("kyma-project.io/module/keda", "1.2.0"), c.Revoke(listed))
			}
		}
		return errors.New("no other key exists")
	})
}

// inShortSuite lists the commands that the short suite kills. They cover each kind of change: a new folder, a root with
// a new key, a draft that takes effect, and a revocation.
var inShortSuite = []string{"init", "rotate publisher", "sign", "revoke with a new floor and epoch"}

// The test kills each command before each of its steps. A reader must then find either the previous or the new state.
func TestKilledKeyChangeIsAtomic(t *testing.T) {
	for name, c := range commands {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(inShortSuite, name) {
				suite.Long(t)
			}
			t.Parallel()
			before := Folder{Dir: filepath.Join(t.TempDir(), "keys")}
			if c.before != nil {
				must(t, c.before(before))
			}
			for step := 1; ; step++ {
				f := Folder{Dir: filepath.Join(t.TempDir(), "keys")}
				if c.before != nil {
					must(t, os.CopyFS(f.Dir, os.DirFS(before.Dir)))
				}
				if runUntilKilled(t, f, name, step) {
					if step < 6 {
						t.Errorf("got %d steps, want at least 5", step-1)
					}
					check(t, f, c.version)
					return
				}
				recovered(t, f, name, c)
			}
		})
	}
}

// runUntilKilled runs a command in a process that is killed before the step with the given number. It returns true if
// the command ended without reaching this step.
func runUntilKilled(t *testing.T, f Folder, name string, step int) bool {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), killedFolder+"="+f.Dir, killedCommand+"="+name,
		fmt.Sprintf("%s=%d", killedAt, step))
	output, err := process.CombinedOutput()
	if err == nil {
		return true
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("step %d: %v\n%s", step, err, output)
	}
	return false
}

func recovered(t *testing.T, f Folder, name string, c command) {
	t.Helper()
	root, err := f.Root()
	if errors.Is(err, os.ErrNotExist) && name == "init" {
		must(t, c.run(f))
		check(t, f, 1)
		return
	}
	must(t, err)
	checkSigner(t, f) // a publisher that starts now must find consistent keys
	done := root.Version == c.version
	if name == "sign" && done {
		must(t, f.WithLock(t.Context(), func(Folder) error { return nil }))
		if exists(f.path(draftName(2))) || exists(f.path(FilePublisherKey+nextSuffix)) {
			t.Error("the draft or its pending key still exists")
		}
		check(t, f, c.version)
		return
	}
	if name == "init" {
		if err := c.run(f); err == nil || !strings.Contains(err.Error(), "exists") {
			t.Errorf("init of an existing folder: got %v, want an error", err)
		}
		check(t, f, 1)
		return
	}
	must(t, rotated(trust.RoleEnroll, false)(f))
	after, err := f.Root()
	must(t, err)
	if after.Version != root.Version+1 && !strings.Contains(name, "draft") && name != "sign" {
		t.Errorf("got root version %d, want %d", after.Version, root.Version+1)
	}
	check(t, f, after.Version)
}

// checkSigner returns the root of trust. It fails the test if the root of trust does not list the signing keys of the
// folder.
func checkSigner(t *testing.T, f Folder) trust.Root {
	t.Helper()
	loaded, err := f.Load(t.Context())
	must(t, err)
	if !loaded.Root.TrustsKey(thumbprintOf(loaded.Signer)) ||
		!loaded.Root.TrustsEnroll(thumbprintOf(loaded.EnrollSigner)) {
		t.Errorf("root version %d does not list the signing keys", loaded.Root.Version)
	}
	if _, err := f.TokenSecrets(); err != nil {
		t.Error(err)
	}
	return loaded.Root
}

// check fails the test if the root of trust has a different version, if its history is incomplete, or if temporary
// files exist.
func check(t *testing.T, f Folder, version int64) {
	t.Helper()
	root := checkSigner(t, f)
	if root.Version != version {
		t.Errorf("got root version %d, want %d", root.Version, version)
	}
	former, err := f.formerRoots(root)
	must(t, err)
	if version > 1 && len(former) != int(version)-1 {
		t.Errorf("got %d earlier versions of root version %d, want %d", len(former), version, version-1)
	}
	for i, one := range former {
		following := root
		if i+1 < len(former) {
			following = former[i+1]
		}
		if _, err := one.Next(following.Raw); err != nil {
			t.Error(err)
		}
	}
	if kept, err := os.ReadFile(f.path(historyFile(version))); version > 1 &&
		(err != nil || !bytes.Equal(kept, root.Raw)) {
		t.Errorf("root version %d is not in the history: %v", version, err)
	}
	for _, left := range []string{stagingFolder, stagingFolder + ".tmp"} {
		if exists(f.path(left)) {
			t.Errorf("%s still exists", left)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Several processes rotate keys at the same time while a publisher reads the folder.
func TestConcurrentRotationsDoNotForkRoot(t *testing.T) {
	const rounds, programs = 3, 3
	f := Folder{Dir: filepath.Join(t.TempDir(), "keys")}
	must(t, begun(1, 1)(f))
	var rotating errgroup.Group
	for range programs {
		rotating.Go(func() error {
			for range rounds {
				process := exec.CommandContext(t.Context(), os.Args[0])
				process.Env = append(os.Environ(), killedFolder+"="+f.Dir, killedCommand+"=rotate publisher",
					killedAt+"=0")
				if output, err := process.CombinedOutput(); err != nil {
					return fmt.Errorf("%w: %s", err, output)
				}
			}
			return nil
		})
	}
	over := make(chan error)
	go func() { over <- rotating.Wait() }()
	seen := map[int64][]byte{}
	for {
		root := checkSigner(t, f)
		if before := seen[root.Version]; before != nil && !bytes.Equal(before, root.Raw) {
			t.Fatalf("found two different roots with version %d", root.Version)
		}
		seen[root.Version] = root.Raw
		select {
		case err := <-over:
			must(t, err)
			check(t, f, 1+rounds*programs)
			return
		default:
		}
	}
}

func TestExistingRootVersionIsNotReplaced(t *testing.T) {
	f, other := Folder{Dir: filepath.Join(t.TempDir(), "keys")}, Folder{Dir: filepath.Join(t.TempDir(), "copy")}
	must(t, begun(1, 1)(f))
	must(t, os.CopyFS(other.Dir, os.DirFS(f.Dir)))
	must(t, rotated(trust.RolePublisher, false)(other))
	fork, err := os.ReadFile(other.path(historyFile(2)))
	must(t, err)
	must(t, os.WriteFile(f.path(historyFile(2)), fork, 0o600))
	err = rotated(trust.RolePublisher, false)(f)
	if err == nil || !strings.Contains(err.Error(), "a different root of trust with version 2") {
		t.Errorf("got %v, want an error about another root with version 2", err)
	}
	if root := checkSigner(t, f); root.Version != 1 {
		t.Errorf("got root version %d, want 1", root.Version)
	}
}

// Program versions without a staging folder wrote a change's files one by one.
func TestRotationInterruptedInAnOlderVersionIsCompleted(t *testing.T) {
	for name, left := range map[string]func(f, done Folder) error{
		"new root in effect, key pending": func(f, done Folder) error {
			return errors.Join(copied(done, FileRoot, f, FileRoot), copied(done, historyFile(1), f, historyFile(1)),
				copied(done, historyFile(2), f, historyFile(2)))
		},
		"new root only in the history": func(f, done Folder) error {
			return errors.Join(copied(done, historyFile(1), f, historyFile(1)), copied(done, historyFile(2), f, historyFile(2)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, done := Folder{Dir: filepath.Join(t.TempDir(), "keys")}, Folder{Dir: filepath.Join(t.TempDir(), "done")}
			must(t, begun(1, 1)(f))
			must(t, os.CopyFS(done.Dir, os.DirFS(f.Dir)))
			must(t, rotated(trust.RolePublisher, true)(done))
			must(t, copied(done, FilePublisherKey, f, FilePublisherKey+nextSuffix))
			must(t, left(f, done))
			checkSigner(t, f)
			must(t, rotated(trust.RoleEnroll, false)(f))
			check(t, f, 3)
			if exists(f.path(FilePublisherKey + nextSuffix)) {
				t.Error("the pending key still exists")
			}
		})
	}
}

func copied(from Folder, name string, to Folder, as string) error {
	data, err := os.ReadFile(from.path(name))
	if err != nil {
		return err
	}
	return os.WriteFile(to.path(as), data, 0o600)
}

func TestKeyChangesAndReadersWaitForTheLock(t *testing.T) {
	f := Folder{Dir: filepath.Join(t.TempDir(), "keys")}
	must(t, begun(1, 1)(f))
	inside, leave := make(chan struct{}), make(chan struct{})
	changing := errgroup.Group{}
	changing.Go(func() error {
		return f.WithLock(t.Context(), func(f Folder) error {
			close(inside)
			<-leave
			return rotated(trust.RolePublisher, true)(f)
		})
	})
	<-inside
	changing.Go(func() error { return rotated(trust.RolePublisher, true)(f) })
	changing.Go(func() error {
		loaded, err := f.Load(t.Context())
		if err == nil && loaded.Root.Version == 1 {
			err = errors.New("the reader did not wait for the change")
		}
		return err
	})
	time.AfterFunc(5*lockRetry, func() { close(leave) })
	must(t, changing.Wait())
	check(t, f, 3)
}

// The test creates a directory at the path of a new file, so that the file cannot be moved there.
func TestKeyChangeTakesEffectIfItsFileCannotBeMoved(t *testing.T) {
	f := Folder{Dir: filepath.Join(t.TempDir(), "keys")}
	must(t, begun(1, 1)(f))
	blocked := f
	obstacle := filepath.Join(f.path(FileTokenKey))
	blocked.step = func(step string) {
		if step == "move "+FileTokenKey {
			must(t, os.Remove(obstacle))
			must(t, os.Mkdir(obstacle, 0o700))
		}
	}
	_, err := blocked.RotateToken(ctx, false)
	wantInForce(t, err, obstacle)
	must(t, os.Remove(obstacle))
	before, err := f.ReadFile(FileTokenKey)
	must(t, err)
	must(t, f.WithLock(t.Context(), func(Folder) error { return nil }))
	if after, err := os.ReadFile(obstacle); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the next command lost the new secret: %v", err)
	}
}

// wantInForce checks the error from a change that has taken effect. The error must not wrap a system error, because
// commands advise users to retry after some system errors.
func wantInForce(t *testing.T, err error, cause string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "is in effect, do not repeat it") ||
		!strings.Contains(err.Error(), cause) {
		t.Errorf("got %v, want an error that the change is in effect", err)
	}
	if system := syscall.Errno(0); errors.As(err, &system) {
		t.Errorf("error %q wraps system error %v", err, system)
	}
}

// The test renames the folder before the change calls fsync on it.
func TestKeyChangeTakesEffectIfItsFolderCannotBeSynced(t *testing.T) {
	f := Folder{Dir: filepath.Join(t.TempDir(), "keys")}
	must(t, begun(1, 1)(f))
	before, err := f.ReadFile(FileTokenKey)
	must(t, err)
	away, blocked := f.Dir+"-away", f
	blocked.step = func(step string) {
		if step == "synchronize" {
			must(t, os.Rename(f.Dir, away))
		}
	}
	_, err = blocked.RotateToken(ctx, false)
	wantInForce(t, err, f.Dir)
	must(t, os.Rename(away, f.Dir))
	must(t, f.WithLock(t.Context(), func(Folder) error { return nil }))
	if after, err := os.ReadFile(f.path(FileTokenKey)); err != nil || bytes.Equal(before, after) {
		t.Errorf("the new secret was lost: %v", err)
	}
}
