package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
	kjson "sigs.k8s.io/json"

	"github.com/kyma-pull/kyma-pull/bundle/store"
)

const (
	maxNameBytes = 1024 // a component name is at most 255 bytes, a version 128
	maxPinBytes  = 8 << 10
	pinSuffix    = ".json"
	// maxPinsBytes limits the memory for pins, because component authors choose the number of pins. A dropped pin is
	// read again from its file.
	maxPinsBytes = 8 << 20
)

type pin struct {
	Name   string        `json:"name"`
	Digest digest.Digest `json:"digest"`
}

// pinFile returns the file name of a pin. It is a hash of the pin's name, because the name is external input and might
// not be a safe file name.
func pinFile(name string) string {
	sum := sha256.Sum256([]byte(name))
	return path.Join(pinsDir, hex.EncodeToString(sum[:])+pinSuffix)
}

// Pinned returns the first digest that any process pinned for the name. If the pin is unreadable, Pinned returns an
// empty digest and true, and Pin returns the error.
func (c *Cache) Pinned(name string) (digest.Digest, bool) {
	if d, ok := c.pins.Get(name); ok {
		return d, true
	}
	p, err := c.readPin(pinFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err != nil || p.Name != name {
		return "", true
	}
	c.addPin(p)
	return p.Digest, true
}

// Pin permanently records d as the digest of the name. It returns an error if the name is already pinned to a different
// digest.
func (c *Cache) Pin(name string, d digest.Digest) error {
	if _, ok := blobFileName(d); !ok {
		return fmt.Errorf("pin %q: digest %q: must be sha256 or sha512 in lower-case hexadecimal digits", name, d)
	}
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("pin %.80q: the name must be 1 to %d bytes long", name, maxNameBytes)
	}
	file := pinFile(name)
	known, ok := c.pins.Get(name)
	if !ok {
		made, err := c.makePin(file, pin{Name: name, Digest: d})
		if err != nil {
			return fmt.Errorf("pin %q: cache %s: %w", name, c.dir, err)
		}
		known = made
	}
	if known != d {
		return fmt.Errorf(
			"pin %q: was %s, is %s: publish a new version instead, or, if the change is intended, remove %s and restart", name, known, d, path.Join(c.dir, file))
	}
	return nil
}

// makePin creates a pin's file if it does not exist, and returns the pinned digest. It creates the file as a hard link,
// so that only one of several concurrent processes succeeds and the others use its digest.
func (c *Cache) makePin(file string, p pin) (digest.Digest, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return "", err
	}
	partial, err := c.writeDurable(data)
	if err != nil {
		return "", err
	}
	linked := c.root.Link(partial, file)
	if isFull(linked) && c.makeRoom() == nil {
		linked = c.root.Link(partial, file)
	}
	err = errors.Join(ignoreExist(linked), c.root.Remove(partial), c.syncPins())
	if err != nil {
		return "", err
	}
	there, err := c.readPin(file)
	if err == nil && there.Name != p.Name {
		err = fmt.Errorf("%s contains the pin of %q", file, there.Name)
	}
	if err != nil {
		return "", err
	}
	c.addPin(there)
	return there.Digest, nil
}

func ignoreExist(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (c *Cache) addPin(p pin) { c.pins.Put(p.Name, p.Digest) }

func (c *Cache) syncPins() error {
	dir, err := c.root.Open(pinsDir)
	if err != nil {
		return err
	}
	return store.SyncAndClose(dir)
}

func (c *Cache) readPins() error {
	entries, err := c.readDir(pinsDir)
	if err != nil {
		return err
	}
	var wrong []error
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), pinSuffix) {
			continue
		}
		file := path.Join(pinsDir, entry.Name())
		p, err := c.readPin(file)
		if err == nil && pinFile(p.Name) != file {
			err = fmt.Errorf("%s contains the pin of %q, which belongs in another file", file, p.Name)
		}
		if err != nil {
			wrong = append(wrong,
				fmt.Errorf("%w: restore the file, or remove it to trust the registry's current content", err))
			continue
		}
		c.addPin(p)
	}
	return errors.Join(wrong...)
}

func (c *Cache) readPin(file string) (pin, error) {
	var p pin
	in, err := c.openRegular(file)
	if err != nil {
		return p, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxPinBytes+1))
	if err != nil {
		return p, fmt.Errorf("%s: %w", file, err)
	}
	doubts, err := kjson.UnmarshalStrict(data, &p)
	if err = errors.Join(append(doubts, err)...); err != nil {
		return p, fmt.Errorf("%s: recorded digest is damaged: %w", file, err)
	}
	if _, ok := blobFileName(p.Digest); !ok || p.Name == "" {
		return p, fmt.Errorf("%s: recorded digest is damaged: name %q, digest %q", file, p.Name, p.Digest)
	}
	return p, nil
}
