// Package git reads the files of one commit from a Git repository, and writes one commit back. Its input is a
// repository's address, branch and credentials. Its output is the commit's hash, author, time and files, all in memory.
// It does not run the git program, so hooks, filters and the configuration of the machine cannot change the result. It
// limits the size, count and time of all data before it uses the data, and never exposes a file outside of the path.
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

// Options select a folder of one commit.
type Options struct {
	// URL is https://…, http://…, ssh://…, user@host:path, file://… or a path on this machine. It must not contain a
	// password.
	URL string
	// Branch or Tag selects the commit; at most one can be set. If both are empty, the repository's HEAD is used.
	Branch, Tag string
	// Path is the folder to read, with slashes as separators. If it is empty, the whole repository is read.
	Path        string
	Credentials Credentials
	// Signers are the accepted signers. The commit must have a signature of one of them, unless Signers is nil.
	Signers *Signers
}

// Repository reads and writes a repository. It is safe for concurrent use.
type Repository struct {
	Options
	endpoint *transport.Endpoint
	client   transport.Transport
	auth     transport.AuthMethod
	// closeIdle closes idle connections. It is nil if the protocol has none.
	closeIdle func()
}

// dialTimeout limits connecting, operationTimeout a whole read, fetch or push, and idleTimeout how long a connection
// stays open between two requests of one operation.
const (
	dialTimeout      = 30 * time.Second
	operationTimeout = 5 * time.Minute
	idleTimeout      = 10 * time.Second
)

// Open checks the options. It sends no request.
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
		if protocol == "http" && r.Credentials.secret() && !isLoopback(r.endpoint.Host) {
			return fmt.Errorf("%s would send the credentials in clear text: use https", r.URL)
		}
		web := http.DefaultTransport.(*http.Transport).Clone()
		web.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
		web.ResponseHeaderTimeout = operationTimeout
		web.IdleConnTimeout = idleTimeout
		if web.TLSClientConfig, err = r.Credentials.tls(); err != nil {
			return err
		}
		r.client = githttp.NewClient(&http.Client{
			Transport:     bounded.Transport{Next: web, MaxBytes: maxPackBytes, TooLarge: errTooLarge},
			CheckRedirect: store.SameHostRedirects,
		})
		r.closeIdle = web.CloseIdleConnections
		r.auth = r.Credentials.http()
		return nil
	case "ssh":
		r.client = gitssh.NewClient(nil)
		r.endpoint.Proxy.URL = sshScheme + "://any"
		r.auth, err = r.Credentials.ssh(r.endpoint)
		return err
	}
	return fmt.Errorf("%s: scheme %q is not supported, must be https, http, ssh or file", r.URL, protocol)
}

// Is reports whether an address refers to a repository rather than a folder.
func Is(address string) bool {
	if strings.Contains(address, "://") {
		return true
	}
	host, _, scp := strings.Cut(address, ":")
	return scp && strings.Contains(host, "@") && !strings.Contains(host, "/")
}

// Revision returns the name of the branch or tag for messages.
func (r *Repository) Revision() string {
	switch {
	case r.Branch != "":
		return "branch " + r.Branch
	case r.Tag != "":
		return "tag " + r.Tag
	}
	return "HEAD"
}

// At returns the repository with another branch or tag.
func (r *Repository) At(branch, tag string) *Repository {
	other := *r
	other.Branch, other.Tag = branch, tag
	return &other
}

// finished closes idle connections at the end of an operation. The follower opens the repository for each poll, because
// credentials may have changed, so idle connections would accumulate until they time out.
func (r *Repository) finished() {
	if r.closeIdle != nil {
		r.closeIdle()
	}
}

// Head returns the hash of the newest commit without fetching it. For an annotated tag, it may be the tag's hash.
func (r *Repository) Head(ctx context.Context) (string, error) {
	defer r.finished()
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	hash, session, _, err := r.advertised(ctx)
	if err != nil {
		return "", r.fetchError("read the references of", err)
	}
	_ = session.Close() // closing a session that only reads cannot lose data
	return hash.String(), nil
}

func (r *Repository) failed(what string, err error) error {
	return fmt.Errorf("%s %s: %w", what, r.URL, err)
}

// local opens bare and other repositories on this machine.
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
