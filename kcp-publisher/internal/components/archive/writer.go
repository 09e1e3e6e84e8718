package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// Format is the file format of an archive.
type Format string

// These are the supported archive formats.
const (
	Folder Format = "folder"
	Tar    Format = "tar"
	TGZ    Format = "tgz"
)

// FormatOf returns the format for a path's extension: .tar, .tgz or .tar.gz. The default is Folder.
func FormatOf(path string) Format {
	switch {
	case strings.HasSuffix(path, ".tar"):
		return Tar
	case strings.HasSuffix(path, ".tgz"), strings.HasSuffix(path, ".tar.gz"):
		return TGZ
	}
	return Folder
}

// Writer writes a common transport archive. It is safe for concurrent use.
//
// Close replaces the archive with one rename. After a crash, the previous archive is intact, and the folder
// ".<name>.*.partial" can be deleted.
type Writer struct {
	path          string
	format        Format
	replace       bool
	dir           string
	root          *os.Root
	previousIndex []byte // the existing folder archive's index, or nil
	index         *index

	mu     sync.Mutex // guards the fields below
	intact map[digest.Digest]bool
	closed bool
}

// Create returns a Writer for an archive at path. The Writer extends an existing archive in a folder, but Create
// returns an error for an existing file. A new archive appears at path when Close is called.
func Create(path string, format Format) (*Writer, error) { return create(path, format, false) }

// Replace is like Create, but Close replaces an existing file.
func Replace(path string, format Format) (*Writer, error) {
	if format == Folder {
		return nil,
			fmt.Errorf("common transport archive %s: a folder cannot be replaced: remove it, or extend it with Create",
				path)
	}
	return create(path, format, true)
}

func create(path string, format Format, replace bool) (*Writer, error) {
	w := &Writer{
		path: filepath.Clean(path), format: format, replace: replace, index: &index{}, intact: map[digest.Digest]bool{},
	}
	err := w.prepare()
	if err != nil {
		return nil, fmt.Errorf("common transport archive %s: %w", path, err)
	}
	return w, nil
}

func (w *Writer) prepare() error {
	if w.format != Folder && w.format != Tar && w.format != TGZ {
		return fmt.Errorf("format %q is not supported: must be %s, %s or %s", w.format, Folder, Tar, TGZ)
	}
	extended, err := w.isExtending()
	if err != nil {
		return err
	}
	w.dir = w.path
	if !extended {
		if w.dir, err = os.MkdirTemp(filepath.Dir(w.path), "."+filepath.Base(w.path)+".*.partial"); err != nil {
			return err
		}
	}
	if w.root, err = os.OpenRoot(w.dir); err == nil {
		if err = w.root.Mkdir(blobsDir, 0o755); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return errors.Join(err, w.Discard())
	}
	return nil
}

func (w *Writer) isExtending() (bool, error) {
	info, err := os.Lstat(w.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && w.replace && info.Mode().IsRegular() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if w.format != Folder || !info.IsDir() {
		return false, errors.New("already exists: remove it, choose another path, or allow replacing it")
	}
	entries, err := os.ReadDir(w.path)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	existing := folder{dir: w.path}
	if w.index, err = readIndex(existing); err != nil {
		return false, fmt.Errorf("%w: choose an empty or new folder", err)
	}
	w.previousIndex, err = existing.indexBytes()
	return true, err
}

// Target returns a repository in the archive for reading and writing. The repository's relative name, such as
// "component-descriptors/kyma-project.io/module/keda", is validated when a manifest is pushed.
func (w *Writer) Target(name string) oras.Target {
	return target{repository: repository{name: name, archivePath: w.path, index: w.index, blobs: folder{dir: w.dir}}, w: w}
}

type target struct {
	repository
	w *Writer
}

// Exists reports whether the content exists. A manifest exists only in the repositories that it was pushed to.
func (t target) Exists(_ context.Context, desc ocispec.Descriptor) (bool, error) {
	there, err := t.w.hasBlob(desc)
	if err != nil || !there || !isManifest(desc.MediaType) {
		return there, err
	}
	_, named := t.index.find(t.name, desc.Digest.String())
	return named, nil
}

// Push writes new content. It returns an error if its size or digest differs from expected.
func (t target) Push(ctx context.Context, expected ocispec.Descriptor, body io.Reader) error {
	if isManifest(expected.MediaType) {
		if err := checkRepository(t.name); err != nil {
			return err
		}
	}
	if there, err := t.Exists(ctx, expected); err != nil || there {
		return errors.Join(err, fmt.Errorf("blob %s in %s: %w", expected.Digest, t.archivePath, errdef.ErrAlreadyExists))
	}
	if err := t.w.write(ctx, expected, body); err != nil {
		return fmt.Errorf("write blob %s to %s: %w", expected.Digest, t.archivePath, err)
	}
	if !isManifest(expected.MediaType) {
		return nil
	}
	return t.addToIndex(expected)
}

func (t target) addToIndex(desc ocispec.Descriptor) error {
	data, err := t.manifest(desc.Digest)
	if err != nil {
		return err
	}
	mediaType, err := manifestMediaType(data)
	if err == nil && mediaType != desc.MediaType {
		err = fmt.Errorf("mediaType: the descriptor has %q, the manifest has %q", desc.MediaType, mediaType)
	}
	if err != nil {
		return fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	t.index.add(Version{Repository: t.name, Digest: desc.Digest, MediaType: mediaType})
	return nil
}

// Tag tags a pushed manifest. It moves an existing tag.
func (t target) Tag(ctx context.Context, desc ocispec.Descriptor, reference string) error {
	if err := checkRepository(t.name); err != nil {
		return err
	}
	tag := reference
	if reference == desc.Digest.String() {
		tag = ""
	} else if err := checkTag(reference); err != nil {
		return err
	}
	found, err := t.Resolve(ctx, desc.Digest.String())
	if err != nil {
		return fmt.Errorf("tag %s: %w", reference, err)
	}
	t.index.add(Version{Repository: t.name, Tag: tag, Digest: desc.Digest, MediaType: found.MediaType})
	return nil
}

// hasBlob reports whether the archive already contains the blob. If the blob is in an existing archive, hasBlob
// verifies the blob's content once, because an interrupted program may have left an incomplete file.
func (w *Writer) hasBlob(desc ocispec.Descriptor) (bool, error) {
	if _, err := blobName(desc.Digest); err != nil {
		return false, err
	}
	w.mu.Lock()
	intact, closed := w.intact[desc.Digest], w.closed
	w.mu.Unlock()
	switch {
	case closed:
		return false, fmt.Errorf("common transport archive %s is closed", w.path)
	case intact:
		return true, nil
	case w.previousIndex == nil || verifyBlob(folder{dir: w.dir}, w.path, desc.Digest) != nil:
		return false, nil
	}
	w.markWritten(desc.Digest)
	return true, nil
}

func (w *Writer) markWritten(d digest.Digest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.intact[d] = true
}

func (w *Writer) write(ctx context.Context, expected ocispec.Descriptor, body io.Reader) error {
	name, err := blobName(expected.Digest)
	if err != nil {
		return err
	}
	reader := content.NewVerifyReader(body, expected)
	err = w.writeFile(path.Join(blobsDir, name), func(file io.Writer) error {
		if _, err := io.Copy(file, reader); err != nil {
			return err
		}
		return errors.Join(reader.Verify(), ctx.Err())
	})
	if err != nil {
		return err
	}
	w.markWritten(expected.Digest)
	return nil
}

func (w *Writer) writeFile(name string, write func(io.Writer) error) error {
	file, err := os.CreateTemp(w.dir, ".*.partial")
	if err != nil {
		return err
	}
	partial := filepath.Base(file.Name())
	if err := finish(file, write); err != nil {
		return errors.Join(err, w.root.Remove(partial))
	}
	return w.root.Rename(partial, name)
}

func finish(file *os.File, write func(io.Writer) error) error {
	err := write(file)
	if err == nil {
		err = errors.Join(file.Chmod(0o644), file.Sync())
	}
	return errors.Join(err, file.Close())
}
