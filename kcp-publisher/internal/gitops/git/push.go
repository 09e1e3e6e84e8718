package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Change contains the changed files for a new commit.
type Change struct {
	// Files maps the path of each changed file, relative to the repository's Path, to its new content. The files must
	// exist.
	Files                map[string][]byte
	Name, Email, Message string
	Time                 time.Time
	// Key signs the commit. Nil creates an unsigned commit.
	Key *SigningKey
}

// ErrMoved means that the branch changed since the commit was read.
var ErrMoved = errors.New("the branch changed since it was read: run the command again")

// ErrExists means that the new branch already exists.
var ErrExists = errors.New("already exists: choose another name")

// Push creates a commit with the change on top of base, pushes it, and returns its hash. branch is either the branch
// of base or a new branch.
func (r *Repository) Push(ctx context.Context, base *Commit, change Change, branch string) (string, error) {
	defer r.closeConnections()
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	old := plumbing.ZeroHash
	if branch == base.Branch {
		old = plumbing.NewHash(base.Head)
	}
	made := memory.NewStorage()
	commit, err := r.compose(base, change, made)
	if err != nil {
		return "", r.newFetchError("change", err)
	}
	hash := commit.Hash
	command := &packp.Command{Name: plumbing.NewBranchReferenceName(branch), Old: old, New: hash}
	if err := command.Name.Validate(); err != nil {
		return "", fmt.Errorf("%q is not a valid branch name", branch)
	}
	if r.isLocal() {
		err = r.storeLocally(made, command)
	} else {
		err = r.send(ctx, made, command)
	}
	if err != nil {
		return "", r.newFetchError("push branch "+branch+" to", err)
	}
	return hash.String(), nil
}

// Preview returns the commit that Push would create, in the format of `git show`.
func (r *Repository) Preview(base *Commit, change Change) (string, error) {
	made := memory.NewStorage()
	commit, err := r.compose(base, change, made)
	if err != nil {
		return "", r.newFetchError("change", err)
	}
	before, err := object.GetTree(base.objects, base.commit.TreeHash)
	if err != nil {
		return "", r.newFetchError("change", err)
	}
	after, err := object.GetTree(combinedStorage{made, base.objects}, commit.TreeHash)
	if err != nil {
		return "", r.newFetchError("change", err)
	}
	patch, err := before.Patch(after)
	if err != nil {
		return "", r.newFetchError("change", err)
	}
	return commit.String() + "\n" + patch.String(), nil
}

// compose creates the commit for a change, and stores the commit with its new blobs and trees in made. It does not
// push.
func (r *Repository) compose(base *Commit, change Change, made *memory.Storage) (*object.Commit, error) {
	tree, err := object.GetTree(base.objects, base.commit.TreeHash)
	if err != nil {
		return nil, err
	}
	root := base.commit.TreeHash
	for _, name := range slices.Sorted(maps.Keys(change.Files)) {
		blob := made.NewEncodedObject()
		blob.SetType(plumbing.BlobObject)
		writer, err := blob.Writer()
		if err != nil {
			return nil, err
		}
		if _, err := writer.Write(change.Files[name]); err != nil {
			return nil, err
		}
		hash, err := made.SetEncodedObject(blob)
		if err != nil {
			return nil, err
		}
		at := path.Join(r.Path, name)
		if root, err = replaceFile(tree, strings.Split(at, "/"), hash, made); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if tree, err = object.GetTree(combinedStorage{made, base.objects}, root); err != nil {
			return nil, err
		}
	}
	who := object.Signature{Name: change.Name, Email: change.Email, When: change.Time}
	commit := &object.Commit{
		Author: who, Committer: who, Message: change.Message, TreeHash: root,
		ParentHashes: []plumbing.Hash{base.commit.Hash},
	}
	if change.Key != nil {
		if commit.PGPSignature, err = change.Key.sign(commit); err != nil {
			return nil, err
		}
	}
	commit.Hash, err = storeObject(made, commit)
	return commit, err
}

// replaceFile returns the hash of a tree in which one file has new content.
func replaceFile(tree *object.Tree, path []string, blob plumbing.Hash, made *memory.Storage) (plumbing.Hash, error) {
	next := &object.Tree{Entries: slices.Clone(tree.Entries)}
	i := slices.IndexFunc(next.Entries, func(e object.TreeEntry) bool { return e.Name == path[0] })
	if i < 0 {
		return plumbing.ZeroHash, object.ErrFileNotFound
	}
	entry := &next.Entries[i]
	if len(path) == 1 {
		entry.Hash = blob
		return storeObject(made, next)
	}
	if entry.Mode != filemode.Dir {
		return plumbing.ZeroHash, object.ErrDirectoryNotFound
	}
	inner, err := tree.Tree(path[0])
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if entry.Hash, err = replaceFile(inner, path[1:], blob, made); err != nil {
		return plumbing.ZeroHash, err
	}
	return storeObject(made, next)
}

func storeObject(made *memory.Storage, o object.Object) (plumbing.Hash, error) {
	encoded := made.NewEncodedObject()
	if err := o.Encode(encoded); err != nil {
		return plumbing.ZeroHash, err
	}
	return made.SetEncodedObject(encoded)
}

// combinedStorage combines the new objects with the base commit's objects.
type combinedStorage struct {
	*memory.Storage
	base storer.EncodedObjectStorer
}

func (b combinedStorage) EncodedObject(kind plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error) {
	if found, err := b.Storage.EncodedObject(kind, hash); err == nil {
		return found, nil
	}
	return b.base.EncodedObject(kind, hash)
}

// storeLocally stores the new commit in a repository on this machine and moves the branch to it.
func (r *Repository) storeLocally(made *memory.Storage, command *packp.Command) error {
	repository, err := gogit.PlainOpen(r.endpoint.Path)
	if err != nil {
		return err
	}
	if err := notCheckedOut(repository, command.Name); err != nil {
		return err
	}
	existing, err := repository.Storer.Reference(command.Name)
	switch {
	case err == nil && existing.Hash() != command.Old:
		return checkMoved(command)
	case errors.Is(err, plumbing.ErrReferenceNotFound) && command.Old != plumbing.ZeroHash:
		return ErrMoved
	case err != nil && !errors.Is(err, plumbing.ErrReferenceNotFound):
		return err
	}
	for _, o := range made.Objects {
		if _, err := repository.Storer.SetEncodedObject(o); err != nil {
			return err
		}
	}
	var before *plumbing.Reference
	if command.Old != plumbing.ZeroHash {
		before = plumbing.NewHashReference(command.Name, command.Old)
	}
	return repository.Storer.CheckAndSetReference(plumbing.NewHashReference(command.Name, command.New), before)
}

// notCheckedOut returns an error if the branch is checked out in a working tree. Like git, Push refuses such a branch.
func notCheckedOut(repository *gogit.Repository, branch plumbing.ReferenceName) error {
	config, err := repository.Config()
	if err != nil {
		return err
	}
	if slices.Contains([]string{"ignore", "warn", "false"}, config.Raw.Section("receive").Option("denyCurrentBranch")) {
		return nil
	}
	head, err := repository.Storer.Reference(plumbing.HEAD)
	if err == nil && !config.Core.IsBare && head.Target() == branch {
		return fmt.Errorf("%s is checked out in the repository: push to another branch, or to a bare repository",
			branch.Short())
	}
	return nil
}

func checkMoved(command *packp.Command) error {
	if command.Old == plumbing.ZeroHash {
		return fmt.Errorf("branch %s %w", command.Name.Short(), ErrExists)
	}
	return ErrMoved
}

func (r *Repository) send(ctx context.Context, made *memory.Storage, command *packp.Command) error {
	session, err := openWithContext(ctx, func() (transport.ReceivePackSession, error) {
		return r.client.NewReceivePackSession(r.endpoint, r.auth)
	})
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // the server has already reported the result
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return err
	}
	if refs.References[command.Name.String()] != command.Old {
		return checkMoved(command)
	}
	request := packp.NewReferenceUpdateRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.Sideband64k) {
		if err := request.Capabilities.Set(capability.Sideband64k); err != nil {
			return err
		}
		request.Progress = sideband.Progress(io.Discard)
	}
	request.Commands = []*packp.Command{command}
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, made, false).Encode(slices.Collect(maps.Keys(made.Objects)),
		0); err != nil {
		return err
	}
	request.Packfile = io.NopCloser(&pack)
	report, err := session.ReceivePack(ctx, request)
	if err != nil {
		return err
	}
	if report == nil {
		return nil
	}
	return report.Error()
}
