package scenario

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/kyma-pull/kyma-pull/apis/operator/v1beta2"
)

// sshServer serves repositories to clients that authenticate with the configured key.
type sshServer struct {
	address net.Addr
	allowed ssh.PublicKey
	host    atomic.Pointer[ssh.Signer]
}

func (r *repository) serveOverSSH() *sshServer {
	r.t.Helper()
	public, identity, err := ed25519.GenerateKey(rand.Reader)
	must(r.t, err)
	s := &sshServer{}
	s.allowed, err = ssh.NewPublicKey(public)
	must(r.t, err)
	block, err := ssh.MarshalPrivateKey(identity, "")
	must(r.t, err)
	r.credentials = r.t.TempDir()
	must(r.t, os.WriteFile(filepath.Join(r.credentials, "identity"), pem.EncodeToMemory(block), 0o600))
	listener, err := new(net.ListenConfig).Listen(r.t.Context(), "tcp", "127.0.0.1:0")
	must(r.t, err)
	r.t.Cleanup(func() { _ = listener.Close() })
	s.address = listener.Addr()
	s.changeHostKey(r.t)
	s.trustedBy(r)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(r.t.Context(), conn)
		}
	}()
	r.url = "ssh://git@" + s.address.String() + r.bare
	return s
}

func (s *sshServer) changeHostKey(t *testing.T) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	must(t, err)
	s.host.Store(&signer)
}

// trustedBy adds the server's host key to the repository's known_hosts.
func (s *sshServer) trustedBy(r *repository) {
	r.t.Helper()
	line := knownhosts.Line([]string{knownhosts.Normalize(s.address.String())}, (*s.host.Load()).PublicKey())
	must(r.t, os.WriteFile(filepath.Join(r.credentials, "known_hosts"), []byte(line+"\n"), 0o600))
}

func (s *sshServer) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions,
		error) {
		if string(key.Marshal()) != string(s.allowed.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(*s.host.Load())
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		for request := range requests {
			var command struct{ Text string }
			if request.Type != "exec" || ssh.Unmarshal(request.Payload, &command) != nil {
				_ = request.Reply(false, nil)
				continue
			}
			_ = request.Reply(true, nil)
			cmd := exec.CommandContext(ctx, "git", "shell", "-c", command.Text)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
			status := struct{ Code uint32 }{}
			if cmd.Run() != nil {
				status.Code = 1
			}
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
			_ = channel.Close()
		}
	}
}

// An attacker in the network could replace the Git server's host key.
func TestUnknownSSHHostKeyChangesNothing(t *testing.T) {
	repo := newRepository(t)
	server := repo.serveOverSSH()
	files := catalogOf(t)
	files["fleet/kymas/one.yaml"], files["fleet/kymas/two.yaml"] = kymaOf("one", "scaler"), kymaOf("two", "mailer")
	first := repo.push(files)
	f := startFollowing(t, repo.flags())
	untilCommit(t, f, first)
	before := versions(t, f)

	server.changeHostKey(t)
	second := repo.push(map[string]string{
		"fleet/kymas/one.yaml": kymaOf("one", "scaler", "mailer"), "fleet/kymas/two.yaml": "",
	})
	key := (*server.host.Load()).PublicKey()
	untilNotFollowed(t, f, before, v1beta2.ReasonHostKeyRefused,
		"known_hosts ("+filepath.Join(repo.credentials, "known_hosts")+") has a different key for "+
			server.address.String()+" than the server, which sent "+key.Type()+" "+ssh.FingerprintSHA256(key)+
			": verify this key with the server's operators, and then add it to known_hosts")
	// A restarted publisher does not trust the new host key.
	must(t, f.Publisher().Stop())
	must(t, f.StartPublisher())
	untilNotFollowed(t, f, before, v1beta2.ReasonHostKeyRefused, "known_hosts (")

	server.trustedBy(repo)
	untilCommit(t, f, second)
}
