// Package git reads the files of one commit from a Git repository, and writes one commit back. A repository's address,
// branch and credentials go in; the commit's hash, author, time and files come out, all in memory. No git program is
// run, so that there are no hooks, no filters and no configuration of the machine that could change what is read. What
// a repository sends is bounded in size, count and time before it is believed, and nothing outside of the wanted path
// becomes visible.
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
)

// Options name a place in a repository.
type Options struct {
	// URL is https://…, http://…, ssh://…, user@host:path, file://… or a path on this machine. It holds no password.
	URL string
	// Branch or Tag say which commit, at most one of them; without both it is the one of the repository's own HEAD.
	Branch, Tag string
	// Path is the folder that is read, by slashes; empty for all.
	Path        string
	Credentials Credentials
	// Signers are those of whom one must have signed the commit; nil demands nothing.
	Signers *Signers
}

// Repository is a repository that can be asked. It is safe for concurrent use.
type Repository struct {
	Options
	endpoint *transport.Endpoint
	client   transport.Transport
	auth     transport.AuthMethod
	// rest closes connections that nobody uses, nil where none are kept.
	rest func()
}

// dialTimeout bounds how long a connection may take, operationTimeout one look, fetch or push as a whole, and
// idleTimeout how long a connection stays between two requests of one.
const (
	dialTimeout      = 30 * time.Second
	operationTimeout = 5 * time.Minute
	idleTimeout      = 10 * time.Second
)

// Open checks the options. It does not talk to anybody.
func Open(o Options) (*Repository, error) {
	if o.Branch != "" && o.Tag != "" {
		return nil, errors.New("a branch and a tag are named: name one of both")
	}
	for _, name := range []plumbing.ReferenceName{plumbing.NewBranchReferenceName(o.Branch), plumbing.NewTagReferenceName(o.Tag)} {
		if err := name.Validate(); err != nil && name.Short() != "" && !strings.HasSuffix(name.String(), "/") {
			return nil, fmt.Errorf("%q is no name of a branch or tag", name.Short())
		}
	}
	o.Path = strings.Trim(path.Clean("/"+o.Path), "/")
	if o.Path == "" {
		o.Path = "."
	}
	if !fs.ValidPath(o.Path) {
		return nil, fmt.Errorf("path %q is no path inside a repository", o.Path)
	}
	if parsed, err := url.Parse(o.URL); err == nil && parsed.User != nil {
		if _, set := parsed.User.Password(); set || parsed.Scheme != "ssh" {
			return nil, errors.New("the URL holds credentials, which logs and bundles would show: put them into files")
		}
	}
	endpoint, err := transport.NewEndpoint(o.URL)
	if err != nil || o.URL == "" {
		return nil, errors.New("want a URL such as https://host/repository.git, ssh://git@host/repository.git or a path")
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
			return fmt.Errorf("%s would carry the credentials in clear text: use https", r.URL)
		}
		web := http.DefaultTransport.(*http.Transport).Clone()
		web.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
		web.ResponseHeaderTimeout = operationTimeout
		web.IdleConnTimeout = idleTimeout
		if web.TLSClientConfig, err = r.Credentials.tls(); err != nil {
			return err
		}
		r.client = githttp.NewClient(&http.Client{Transport: bounded{web}, CheckRedirect: store.SameHostRedirects})
		r.rest = web.CloseIdleConnections
		r.auth = r.Credentials.http()
		return nil
	case "ssh":
		r.client = gitssh.NewClient(nil)
		r.auth, err = r.Credentials.ssh(r.endpoint)
		return err
	}
	return fmt.Errorf("%s: scheme %q is not supported, want https, http, ssh or file", r.URL, protocol)
}

// Is tells an address of a repository from a folder's path.
func Is(address string) bool {
	if strings.Contains(address, "://") {
		return true
	}
	host, _, scp := strings.Cut(address, ":")
	return scp && strings.Contains(host, "@") && !strings.Contains(host, "/")
}

// Revision names what the options select, for messages.
func (r *Repository) Revision() string {
	switch {
	case r.Branch != "":
		return "branch " + r.Branch
	case r.Tag != "":
		return "tag " + r.Tag
	}
	return "HEAD"
}

// At returns the same repository at another branch, or tag.
func (r *Repository) At(branch, tag string) *Repository {
	other := *r
	other.Branch, other.Tag = branch, tag
	return &other
}

// finished ends a look, fetch or push. Whoever polls opens the repository anew each time, for credentials that may have
// changed: connections that are kept would only pile up until they time out.
func (r *Repository) finished() {
	if r.rest != nil {
		r.rest()
	}
}

// Head returns the hash of the newest commit without fetching it; of an annotated tag it may be the tag's own.
func (r *Repository) Head(ctx context.Context) (string, error) {
	defer r.finished()
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	hash, session, _, err := r.advertised(ctx)
	if err != nil {
		return "", r.fetchError("look at", err)
	}
	_ = session.Close() // it was only read
	return hash.String(), nil
}

func (r *Repository) failed(what string, err error) error {
	return fmt.Errorf("%s %s: %w", what, r.URL, err)
}

// local opens repositories on this machine, bare ones and those with a working tree.
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
