package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/helper/iofs"
	"github.com/go-git/go-billy/v5/memfs"
	billyutil "github.com/go-git/go-billy/v5/util"
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

	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

// Commit is one commit with the files below the repository's Path.
type Commit struct {
	// Head is the hash that the branch or tag points to, which can be an annotated tag.
	Head string
	Hash string
	// Branch is the commit's branch, or empty for a tag.
	Branch string
	// Author is "Name <address>".
	Author  string
	Message string
	Time    time.Time
	// Files are the files below the repository's Path.
	Files fs.FS
	// Ignored lists the skipped symbolic links and submodules, with the reason.
	Ignored []string
	// SignedBy identifies the signing key, or is empty if no signature is required.
	SignedBy string

	commit  *object.Commit
	objects storer.EncodedObjectStorer
}

// Commit fetches the newest commit.
func (r *Repository) Commit(ctx context.Context) (*Commit, error) {
	defer r.closeConnections()
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	head, branch, objects, err := r.fetch(ctx, 1)
	if err != nil {
		return nil, r.fetchError("fetch", err)
	}
	commit, err := r.read(head, objects)
	if err != nil {
		return nil, r.newFetchError("read "+r.Revision()+" of", err)
	}
	commit.Branch = branch
	return commit, nil
}

func (r *Repository) readAdvertised(
	ctx context.Context,
) (plumbing.Hash, transport.UploadPackSession, *packp.AdvRefs, error) {
	session, err := openWithContext(ctx, func() (transport.UploadPackSession, error) {
		return r.client.NewUploadPackSession(r.endpoint, r.auth)
	})
	if err != nil {
		return plumbing.ZeroHash, nil, nil, err
	}
	refs, err := session.AdvertisedReferencesContext(ctx)
	if err == nil {
		var hash plumbing.Hash
		if hash, err = r.selectCommit(refs); err == nil {
			return hash, session, refs, nil
		}
	}
	return plumbing.ZeroHash, nil, nil, errors.Join(err, session.Close())
}

func (r *Repository) selectCommit(refs *packp.AdvRefs) (plumbing.Hash, error) {
	name := plumbing.NewBranchReferenceName(r.Branch).String()
	if r.Tag != "" {
		name = plumbing.NewTagReferenceName(r.Tag).String()
	}
	if r.Branch == "" && r.Tag == "" {
		if refs.Head == nil {
			return plumbing.ZeroHash, errors.New("the repository's HEAD does not point to a commit: select a branch")
		}
		return *refs.Head, nil
	}
	hash, ok := refs.References[name]
	if !ok {
		return plumbing.ZeroHash, fmt.Errorf("%s does not exist", r.Revision())
	}
	return hash, nil
}

func (r *Repository) branch(refs *packp.AdvRefs) string {
	if r.Branch != "" || r.Tag != "" {
		return r.Branch
	}
	for _, link := range refs.Capabilities.Get(capability.SymRef) {
		if target, ok := strings.CutPrefix(link, "HEAD:refs/heads/"); ok {
			return target
		}
	}
	return ""
}

// fetch returns the newest commits' objects. If the server supports shallow fetches, fetch limits the history to the
// given number of commits.
func (r *Repository) fetch(
	ctx context.Context, commits int,
) (head plumbing.Hash, branch string, objects storer.EncodedObjectStorer, err error) {
	head, session, refs, err := r.readAdvertised(ctx)
	if err != nil {
		return head, "", nil, err
	}
	defer func() { _ = session.Close() }() // closing a read-only session cannot lose data
	branch = r.branch(refs)
	if r.isLocal() {
		objects, err = local{}.Load(r.endpoint)
		return head, branch, objects, err
	}
	request := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	request.Wants = []plumbing.Hash{head}
	request.Capabilities.Delete(capability.ThinPack) // a thin pack refers to objects that are not stored locally
	if refs.Capabilities.Supports(capability.Shallow) {
		request.Depth = packp.DepthCommits(commits)
		if err := request.Capabilities.Set(capability.Shallow); err != nil {
			return head, "", nil, err
		}
	}
	response, err := session.UploadPack(ctx, request)
	if err != nil {
		return head, "", nil, err
	}
	defer func() { _ = response.Close() }()
	objects, err = unpackObjects(unframePack(request.Capabilities, response))
	return head, branch, objects, err
}

// unpackObjects checks the size of all objects before it stores any.
func unpackObjects(from io.Reader) (storer.EncodedObjectStorer, error) {
	var pack bytes.Buffer
	if _, err := io.Copy(&pack, bounded.NewReader(from, maxPackBytes, errTooLarge)); err != nil {
		return nil, err
	}
	if err := checkPackSize(pack.Bytes()); err != nil {
		return nil, err
	}
	objects := memory.NewStorage()
	return objects, packfile.UpdateObjectStorage(objects, &pack)
}

func unframePack(capabilities *capability.List, from io.Reader) io.Reader {
	switch {
	case capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, from)
	case capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, from)
	}
	return from
}

func (r *Repository) read(head plumbing.Hash, objects storer.EncodedObjectStorer) (*Commit, error) {
	found, err := findCommit(head, objects)
	if err != nil {
		return nil, err
	}
	commit := &Commit{
		Head: head.String(), Hash: found.Hash.String(), Author: found.Author.Name + " <" + found.Author.Email + ">",
		Message: found.Message,
		Time:    found.Committer.When, commit: found, objects: objects,
	}
	if r.Signers != nil {
		if commit.SignedBy, err = r.Signers.verify(found); err != nil {
			return nil, fmt.Errorf("commit %s: %w", commit.Hash, err)
		}
	}
	tree, err := object.GetTree(objects, found.TreeHash)
	if err == nil && r.Path != "." {
		tree, err = tree.Tree(r.Path)
	}
	if err != nil {
		return nil, fmt.Errorf("commit %s: folder %s: %w", commit.Hash, r.Path, err)
	}
	c := collector{objects: objects, into: memfs.New()}
	if err := c.folder(tree, ".", 1); err != nil {
		return nil, fmt.Errorf("commit %s: %w", commit.Hash, err)
	}
	commit.Files, commit.Ignored = iofs.New(c.into), c.ignored
	return commit, nil
}

func findCommit(head plumbing.Hash, objects storer.EncodedObjectStorer) (*object.Commit, error) {
	tag, err := object.GetTag(objects, head)
	if err == nil {
		return tag.Commit()
	}
	return object.GetCommit(objects, head)
}

type collector struct {
	objects storer.EncodedObjectStorer
	into    billy.Filesystem
	ignored []string
	files   int
	bytes   int64
}

func (c *collector) folder(tree *object.Tree, name string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: folders nest deeper than %d", name, maxDepth)
	}
	if err := c.into.MkdirAll(name, 0o755); err != nil {
		return err
	}
	for _, entry := range tree.Entries {
		at := path.Join(name, entry.Name)
		if !fs.ValidPath(at) || path.Base(at) != entry.Name {
			return fmt.Errorf("%q is not a valid file name", entry.Name)
		}
		if c.files++; c.files > maxFiles {
			return fmt.Errorf("more than %d files: narrow the path", maxFiles)
		}
		switch entry.Mode {
		case filemode.Dir:
			inner, err := object.GetTree(c.objects, entry.Hash)
			if err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			if err := c.folder(inner, at, depth+1); err != nil {
				return err
			}
		case filemode.Regular, filemode.Deprecated, filemode.Executable:
			if err := c.file(entry.Hash, at); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		case filemode.Symlink:
			err := c.refuseEntry(at, "is a symbolic link, which is not followed")
			if err != nil {
				return err
			}
		case filemode.Submodule:
			err := c.refuseEntry(at, "is a submodule, which is not fetched")
			if err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: file mode %s is not supported", at, entry.Mode)
		}
	}
	return nil
}

// refuseEntry returns an error for a link or submodule, unless it is hidden. A link or submodule could replace files
// from an earlier commit, and the objects in these files would look deleted.
func (c *collector) refuseEntry(at, what string) error {
	isHidden := func(name string) bool { return len(name) > 1 && name[0] == '.' }
	if slices.ContainsFunc(strings.Split(at, "/"), isHidden) {
		c.ignored = append(c.ignored, at+": "+what)
		return nil
	}
	return fmt.Errorf("%s %s: replace it with the files, or move it outside of --git-path", at, what)
}

func (c *collector) file(hash plumbing.Hash, at string) error {
	blob, err := object.GetBlob(c.objects, hash)
	if err != nil {
		return err
	}
	if c.bytes += blob.Size; blob.Size > maxFileBytes || c.bytes > maxFilesBytes {
		return fmt.Errorf("the file is %d bytes, must be at most %d, and all files together at most %d", blob.Size,
			maxFileBytes, maxFilesBytes)
	}
	data, err := contents(blob)
	if err != nil {
		return err
	}
	return billyutil.WriteFile(c.into, at, data, 0o644)
}

func contents(blob *object.Blob) (data []byte, err error) {
	reader, err := blob.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	return io.ReadAll(io.LimitReader(reader, maxFileBytes))
}
