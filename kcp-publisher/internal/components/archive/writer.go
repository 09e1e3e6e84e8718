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

// Format is what an archive is on disk.
type Format string

// The formats of an archive.
const (
	Folder Format = "folder"
	Tar    Format = "tar"
	TGZ    Format = "tgz"
)

// FormatOf returns the format that a path's ending asks for: .tar, .tgz and .tar.gz, else a folder.
func FormatOf(path string) Format {
	switch {
	case strings.HasSuffix(path, ".tar"):
		return Tar
	case strings.HasSuffix(path, ".tgz"), strings.HasSuffix(path, ".tar.gz"):
		return TGZ
	}
	return Folder
}

// Writer is a common transport archive that is being written. It may be used by any number of goroutines.
//
// Blobs go into a folder: an existing archive's own, where nobody sees them before the index names them, or else a new
// one beside the path. Close makes all of it visible by one rename, of the index, the new folder or the packed file. So
// a crash leaves what was there before, and at worst a folder ".<name>.*.partial" beside it, which may be removed.
type Writer struct {
	path    string
	format  Format
	replace bool
	dir     string   // where the blobs are written
	root    *os.Root // dir
	before  []byte   // the index of the existing folder that is extended, nil for a new archive
	index   *index

	mu     sync.Mutex // guards what follows
	intact map[digest.Digest]bool
	closed bool
}

// Create starts an archive at path. An existing folder archive is extended; an existing file is refused, see Replace.
// Nothing is at path before Close.
func Create(path string, format Format) (*Writer, error) { return create(path, format, false) }

// Replace is Create for a tar or gzipped tar that may exist: Close puts the new one in its place.
func Replace(path string, format Format) (*Writer, error) {
	if format == Folder {
		return nil, fmt.Errorf("common transport archive %s: a folder is not replaced: remove it, or extend it with Create", path)
	}
	return create(path, format, true)
}

func create(path string, format Format, replace bool) (*Writer, error) {
	w := &Writer{path: filepath.Clean(path), format: format, replace: replace, index: &index{}, intact: map[digest.Digest]bool{}}
	err := w.prepare()
	if err != nil {
		return nil, fmt.Errorf("common transport archive %s: %w", path, err)
	}
	return w, nil
}

func (w *Writer) prepare() error {
	if w.format != Folder && w.format != Tar && w.format != TGZ {
		return fmt.Errorf("format %q: want %s, %s or %s", w.format, Folder, Tar, TGZ)
	}
	extended, err := w.extends()
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

// extends says that the path is a folder archive, whose index it reads, or refuses what must not be written over.
func (w *Writer) extends() (bool, error) {
	info, err := os.Lstat(w.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && w.replace && info.Mode().IsRegular() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if w.format != Folder || !info.IsDir() {
		return false, errors.New("exists: remove it, name another one, or ask to replace it")
	}
	entries, err := os.ReadDir(w.path)
	if err != nil || len(entries) == 0 {
		return false, err
	}
	existing := folder{dir: w.path}
	if w.index, err = readIndex(existing); err != nil {
		return false, fmt.Errorf("%w: name an empty or new folder", err)
	}
	w.before, err = existing.indexBytes()
	return true, err
}

// Target returns any repository of the archive for reading and writing, by its relative name, such as
// "component-descriptors/kyma-project.io/module/keda". The name is checked when a manifest is pushed or tagged.
func (w *Writer) Target(name string) oras.Target {
	return target{repository: repository{name: name, where: w.path, index: w.index, blobs: folder{dir: w.dir}}, w: w}
}

// target is one repository of an archive that is being written.
type target struct {
	repository
	w *Writer
}

// Exists says that the content need not be pushed. A manifest exists in the repositories it was pushed to only, so that
// each repository's index entries are complete.
func (t target) Exists(_ context.Context, desc ocispec.Descriptor) (bool, error) {
	there, err := t.w.has(desc)
	if err != nil || !there || !isManifest(desc.MediaType) {
		return there, err
	}
	_, named := t.index.find(t.name, desc.Digest.String())
	return named, nil
}

// Push writes content that is not there yet, unless its size or digest is not what expected says. A manifest becomes an
// entry of the index without a tag.
func (t target) Push(ctx context.Context, expected ocispec.Descriptor, body io.Reader) error {
	if isManifest(expected.MediaType) {
		if err := checkRepository(t.name); err != nil {
			return err
		}
	}
	if there, err := t.Exists(ctx, expected); err != nil || there {
		return errors.Join(err, fmt.Errorf("blob %s in %s: %w", expected.Digest, t.where, errdef.ErrAlreadyExists))
	}
	if err := t.w.write(ctx, expected, body); err != nil {
		return fmt.Errorf("write blob %s to %s: %w", expected.Digest, t.where, err)
	}
	if !isManifest(expected.MediaType) {
		return nil
	}
	return t.enter(expected)
}

// enter makes a manifest an entry of the index that readers will agree with.
func (t target) enter(desc ocispec.Descriptor) error {
	data, err := t.manifest(desc.Digest)
	if err != nil {
		return err
	}
	mediaType, err := mediaTypeOf(data)
	if err == nil && mediaType != desc.MediaType {
		err = fmt.Errorf("mediaType: is pushed as %q and is %q", desc.MediaType, mediaType)
	}
	if err != nil {
		return fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	t.index.add(Version{Repository: t.name, Digest: desc.Digest, MediaType: mediaType})
	return nil
}

// Tag names a manifest that was pushed. What had the tag stays in the index without one.
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

// has says that the blob is there with the right bytes. One from before is read once: its writer may have been cut off.
func (w *Writer) has(desc ocispec.Descriptor) (bool, error) {
	if _, err := blobName(desc.Digest); err != nil {
		return false, err
	}
	w.mu.Lock()
	intact, closed := w.intact[desc.Digest], w.closed
	w.mu.Unlock()
	switch {
	case closed:
		return false, fmt.Errorf("common transport archive %s: is closed", w.path)
	case intact:
		return true, nil
	case w.before == nil || verifyBlob(folder{dir: w.dir}, w.path, desc.Digest) != nil:
		return false, nil
	}
	w.mark(desc.Digest)
	return true, nil
}

func (w *Writer) mark(d digest.Digest) {
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
	w.mark(expected.Digest)
	return nil
}

// writeFile makes a file appear in the folder complete, and durable before anything refers to it.
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

// finish writes, syncs and closes a file and opens it to readers.
func finish(file *os.File, write func(io.Writer) error) error {
	err := write(file)
	if err == nil {
		err = errors.Join(file.Chmod(0o644), file.Sync())
	}
	return errors.Join(err, file.Close())
}
