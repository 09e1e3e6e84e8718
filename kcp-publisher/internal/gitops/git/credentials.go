package git

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
)

// Credentials authenticate to a repository. They are never printed.
type Credentials struct {
	username, password, bearerToken string
	// ca contains additional CA certificates for HTTPS, in PEM.
	ca []byte
	// identity is an SSH private key. knownHosts is the path of the file with host keys.
	identity   []byte
	knownHosts string
}

// maxCredentialBytes limits the size of each credential file.
const maxCredentialBytes = 1 << 20

// ReadCredentials reads a folder with the files from a Flux GitRepository Secret. For HTTPS, the files are ca.crt and
// either bearerToken or username and password. For SSH, the files are identity, known_hosts and password.
//
// Source: Flux, GitRepository v1, "Secret reference".
func ReadCredentials(dir string) (Credentials, error) {
	var c Credentials
	found := false
	for name, into := range map[string]func([]byte){
		"username":    func(data []byte) { c.username = strings.TrimSpace(string(data)) },
		"password":    func(data []byte) { c.password = strings.TrimRight(string(data), "\r\n") },
		"bearerToken": func(data []byte) { c.bearerToken = strings.TrimSpace(string(data)) },
		"ca.crt":      func(data []byte) { c.ca = data },
		"identity":    func(data []byte) { c.identity = data },
		"known_hosts": func([]byte) { c.knownHosts = filepath.Join(dir, "known_hosts") },
	} {
		data, err := readBounded(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Credentials{}, err
		}
		found = true
		into(data)
	}
	if !found {
		return Credentials{},
			fmt.Errorf("%s contains none of username, password, bearerToken, ca.crt, identity and known_hosts", dir)
	}
	return c, nil
}

func readBounded(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxCredentialBytes {
		return nil, fmt.Errorf("%s is %d bytes, must be at most %d bytes", name, info.Size(), maxCredentialBytes)
	}
	return os.ReadFile(name)
}

// needEncryption reports whether the credentials require an encrypted connection.
func (c Credentials) needEncryption() bool { return c.password != "" || c.bearerToken != "" }

func (c Credentials) http() transport.AuthMethod {
	switch {
	case c.bearerToken != "":
		return &githttp.TokenAuth{Token: c.bearerToken}
	case c.password != "":
		username := c.username
		if username == "" {
			username = "git" // with a token as the password, Git hosts accept any name except an empty one
		}
		return &githttp.BasicAuth{Username: username, Password: c.password}
	}
	return nil
}

func (c Credentials) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ca == nil {
		return config, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(c.ca) {
		return nil, errors.New("ca.crt contains no certificate")
	}
	config.RootCAs = pool
	return config, nil
}

// ssh returns the SSH credentials. It requires the server's key in known_hosts. Otherwise, an attacker on the network
// could replace the repository.
func (c Credentials) ssh(endpoint *transport.Endpoint) (transport.AuthMethod, error) {
	if c.identity == nil || c.knownHosts == "" {
		return nil, errors.New("SSH requires the credential files identity and known_hosts")
	}
	user := endpoint.User
	if user == "" {
		user = "git"
	}
	keys, err := gitssh.NewPublicKeys(user, c.identity, c.password)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	hosts, err := gitssh.NewKnownHostsDb(c.knownHosts)
	if err != nil {
		return nil, fmt.Errorf("known_hosts: %w", err)
	}
	port := endpoint.Port
	if port == 0 {
		port = gitssh.DefaultPort
	}
	verify := hosts.HostKeyCallback()
	keys.HostKeyCallback = func(host string, remote net.Addr, key ssh.PublicKey) error {
		if err := verify(host, remote, key); err != nil {
			return &hostKeyError{c.knownHosts, host, key.Type() + " " + ssh.FingerprintSHA256(key), err}
		}
		return nil
	}
	keys.HostKeyAlgorithms = hosts.HostKeyAlgorithms(fmt.Sprintf("%s:%d", endpoint.Host, port))
	return keys, nil
}
