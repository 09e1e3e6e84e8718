// Package git reads one commit's files from a Git repository, and pushes one commit. It works in memory and does not
// run the git program, so hooks and the machine's configuration have no effect. It limits the size and count of all
// data, and how long requests can take.
package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/plumbing/transport/server"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"

	"github.com/kyma-pull/kyma-pull/bundle/store"
	"github.com/kyma-pull/kyma-pull/internal/bounded"
)

// Options select a repository, a commit and a folder.
type Options struct {
	// URL is https://…, http://…, ssh://…, user@host:path, file://… or a path on this machine. It must not contain a
	// password.
	URL string
	// Branch or Tag selects the commit. If both are empty, the repository's HEAD is used.
	Branch, Tag string
	// Path is the folder to read, with slashes as separators. An empty Path reads the whole repository.
	Path        string
	Credentials Credentials
	// Signers are the signers that are accepted for the commit. Nil accepts unsigned commits.
	Signers *Signers
}

// Repository reads and writes a repository. It is safe for concurrent use.
type Repository struct {
	Options
	endpoint *transport.Endpoint
	client   transport.Transport
	auth     transport.AuthMethod
	// closeIdle closes idle connections, or is nil.
	closeIdle func()
}

// operationTimeout limits a whole read, fetch or push. idleTimeout limits how long an unused connection stays open.
const (
	operationTimeout = 5 * time.Minute
	idleTimeout      = 10 * time.Second
)

// Open checks the options and returns the Repository. It does not send requests.
func Open(o Options) (*Repository, error) {
	if o.Branch != "" && o.Tag != "" {
		return nil, errors.New("a branch and a tag are set: set only one of them")
	}
	for _, name := range []plumbing.ReferenceName{plumbing.NewBranchReferenceName(o.Branch),
		plumbing.NewTagReferenceName(o.Tag)} {
		if err := name.Validate(); err != nil && name.Short() != "" && !strings.HasSuffix(name.String(), "/") {
			return nil, fmt.Errorf("%q is not a valid branch or tag name", name.Short())
		}
	}
	o.Path = strings.Trim(path.Clean("/"+o.Path), "/")
	if o.Path == "" {
		o.Path = "."
	}
	if !fs.ValidPath(o.Path) {
		return nil, fmt.Errorf("path %q is not a path inside a repository", o.Path)
	}
	if parsed, err := url.Parse(o.URL); err == nil && parsed.User != nil {
		if _, set := parsed.User.Password(); set || parsed.Scheme != "ssh" {
			return nil,
				errors.New("the URL contains credentials, which would appear in logs and bundles: put them into files")
		}
	}
	endpoint, err := transport.NewEndpoint(o.URL)
	if err != nil || o.URL == "" {
		return nil,
			errors.New("the repository must be a URL such as https://host/repository.git or " +
				"ssh://git@host/repository.git, or a path")
	}
	r := &Repository{Options: o, endpoint: endpoint}
	if err := r.connectBy(endpoint.Protocol); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Repository) connectBy(protocol string) (err error) {
	switch protocol {
	case "file":
		r.client = server.NewClient(local{})
		return nil
	case "http", "https":
		if protocol == "http" && r.Credentials.needEncryption() && !isLoopback(r.endpoint.Host) {
			return fmt.Errorf("%s would send the credentials in clear text: use https", r.URL)
		}
		certificates, err := r.Credentials.tls()
		if err != nil {
			return err
		}
		web := store.NewClient(store.ClientOptions{
			Hosts: []string{r.endpoint.Host}, TLS: certificates, Redirects: store.SameHostRedirects,
			HeaderTimeout: operationTimeout, IdleTimeout: idleTimeout,
			Wrap: func(next http.RoundTripper) http.RoundTripper {
				return bounded.Transport{Next: next, MaxBytes: maxPackBytes, TooLarge: errTooLarge}
			},
		})
		r.client = githttp.NewClient(web)
		r.closeIdle = web.CloseIdleConnections
		r.auth = r.Credentials.http()
		return nil
	case "ssh":
		r.client = boundedSSH{gitssh.NewClient(nil)}
		r.auth, err = r.Credentials.ssh(r.endpoint)
		return err
	}
	return fmt.Errorf("%s: scheme %q is not supported, must be https, http, ssh or file", r.URL, protocol)
}

// IsRepository reports whether an address refers to a repository rather than a folder.
func IsRepository(address string) bool {
	if strings.Contains(address, "://") {
		return true
	}
	host, _, scp := strings.Cut(address, ":")
	return scp && strings.Contains(host, "@") && !strings.Contains(host, "/")
}

// Revision returns the name of the branch or tag.
func (r *Repository) Revision() string {
	switch {
	case r.Branch != "":
		return branchPrefix + r.Branch
	case r.Tag != "":
		return tagPrefix + r.Tag
	}
	return "HEAD"
}

// WithRevision returns a copy of the repository that selects another branch or tag.
func (r *Repository) WithRevision(branch, tag string) *Repository {
	other := *r
	other.Branch, other.Tag = branch, tag
	return &other
}

// closeConnections closes idle connections. The follower opens the repository for each poll, so idle connections would
// accumulate.
func (r *Repository) closeConnections() {
	if r.closeIdle != nil {
		r.closeIdle()
	}
}

// Head returns the hash of the newest commit or annotated tag without fetching it.
func (r *Repository) Head(ctx context.Context) (string, error) {
	defer r.closeConnections()
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	hash, session, _, err := r.readAdvertised(ctx)
	if err != nil {
		return "", r.fetchError("read the references of", err)
	}
	_ = session.Close() // closing a read-only session cannot lose data
	return hash.String(), nil
}

func (r *Repository) newFetchError(what string, err error) error {
	return fmt.Errorf("%s %s: %w", what, r.URL, err)
}

type local struct{}

func (local) Load(endpoint *transport.Endpoint) (storer.Storer, error) {
	repository, err := gogit.PlainOpen(endpoint.Path)
	if err != nil {
		return nil, err
	}
	return repository.Storer, nil
}

func (r *Repository) isLocal() bool { return r.endpoint.Protocol == "file" }

func isLoopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
