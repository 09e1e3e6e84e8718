package git

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func sshServer(t *testing.T, host ssh.Signer, allowed ssh.PublicKey) net.Addr {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions,
		error) {
		if string(key.Marshal()) != string(allowed.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveSSH(t.Context(), conn, config)
		}
	}()
	return listener.Addr()
}

func serveSSH(ctx context.Context, conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
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

func sshCredentials(t *testing.T, address net.Addr, host ssh.PublicKey, identity ed25519.PrivateKey) Credentials {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(identity, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"identity":    pem.EncodeToMemory(block),
		"known_hosts": []byte(knownhosts.Line([]string{knownhosts.Normalize(address.String())}, host) + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	credentials, err := ReadCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	return credentials
}

func TestSSHRepositoryIsReadAndPushedWithKeysFromFiles(t *testing.T) {
	host, other := newSSHKey(t), newSSHKey(t)
	public, identity, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	w := newWork(t)
	first := w.commit(map[string]string{"deep/two.yaml": "old"})
	address := sshServer(t, host, allowed)
	url := "ssh://git@" + address.String() + w.bare()
	r := open(t, Options{URL: url, Credentials: sshCredentials(t, address, host.PublicKey(), identity)})
	base, err := r.Commit(t.Context())
	w.must(err)
	if base.Hash != first {
		t.Errorf("got %s, want %s", base.Hash, first)
	}
	pushed, err := r.Push(t.Context(), base, change, "main")
	w.must(err)
	if head, err := r.Head(t.Context()); err != nil || head != pushed {
		t.Errorf("after the push, main is at %s, %v, want %s", head, err, pushed)
	}
	for name, c := range map[string]struct {
		host     ssh.PublicKey
		identity ed25519.PrivateKey
		cause    Cause
		want     string
	}{
		"server with a different key": {
			other.PublicKey(), identity, HostKeyRefused, "has a different key for " + address.String() +
				" than the server, which sent " + host.PublicKey().Type() + " " + ssh.FingerprintSHA256(host.PublicKey()),
		},
		"server with a different key type": {
			ecdsaKey(t), identity, HostKeyRefused, "has no key for 127.0.0.1 of a type that the server supports (" +
				host.PublicKey().Type(),
		},
		"client with an unknown key": {
			host.PublicKey(), stranger, CredentialsRefused, "unable to authenticate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t, Options{URL: url, Credentials: sshCredentials(t, address, c.host, c.identity)})
			_, err := r.Head(t.Context())
			var fetch *FetchError
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &fetch) ||
				fetch.Cause != c.cause {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if c.cause == HostKeyRefused &&
				!strings.Contains(err.Error(), "known_hosts ("+r.Credentials.knownHosts+")") {
				t.Errorf("the error does not contain the path of known_hosts: %v", err)
			}
		})
	}
}

// The server's packet size determines whether the limit cuts the references between two lines or inside a line.
func TestSSHServerCannotSendEndlessReferences(t *testing.T) {
	for name, packetBytes := range map[string]int{"whole lines": 0, "parts of lines": 32 << 10} {
		t.Run(name, func(t *testing.T) { checkEndlessReferences(t, packetBytes) })
	}
}

func checkEndlessReferences(t *testing.T, packetBytes int) {
	t.Helper()
	host := newSSHKey(t)
	_, identity, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		return nil, nil
	}}
	config.AddHostKey(host)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	sent := make(chan int64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		sent <- sendReferences(conn, config, packetBytes)
	}()
	address := listener.Addr()
	r := open(t, Options{URL: "ssh://git@" + address.String() + "/fleet",
		Credentials: sshCredentials(t, address, host.PublicKey(), identity)})
	if _, err := r.Head(t.Context()); !errors.Is(err, errTooLarge) {
		t.Errorf("endless references: got error %v, want the size limit", err)
	}
	if got := <-sent; got > 2*maxPackBytes {
		t.Errorf("the client read %d bytes, want at most about %d", got, maxPackBytes)
	}
}

// sendReferences serves one session, sends references until the client disconnects, and returns the number of bytes. It
// sends packetBytes bytes at a time, or a line at a time if packetBytes is 0.
func sendReferences(conn net.Conn, config *ssh.ServerConfig, packetBytes int) (bytes int64) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return 0
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return bytes
		}
		for request := range requests {
			_ = request.Reply(request.Type == "exec", nil)
			to := &packets{to: channel, bytes: packetBytes}
			for n := 0; request.Type == "exec"; n++ {
				line := fmt.Sprintf("%040x refs/heads/%0900d\x00agent=test\n", n+1, n)
				if n > 0 { // only the first line has capabilities
					line = strings.Replace(line, "\x00agent=test", "", 1)
				}
				sent, err := fmt.Fprintf(to, "%04x%s", len(line)+4, line)
				if bytes += int64(sent); err != nil {
					return bytes
				}
			}
		}
	}
	return bytes
}

// packets collects data until it can write the given number of bytes at a time.
type packets struct {
	to      io.Writer
	bytes   int
	pending []byte
}

func (p *packets) Write(data []byte) (int, error) {
	for p.pending = append(p.pending, data...); len(p.pending) > 0 && len(p.pending) >= p.bytes; {
		size := len(p.pending)
		if p.bytes > 0 {
			size = p.bytes
		}
		if _, err := p.to.Write(p.pending[:size]); err != nil {
			return 0, err
		}
		p.pending = p.pending[size:]
	}
	return len(data), nil
}

func ecdsaKey(t *testing.T) ssh.PublicKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func TestSilentServerTimesOut(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, identity, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, Options{
		URL:         "ssh://git@" + listener.Addr().String() + "/x",
		Credentials: sshCredentials(t, listener.Addr(), newSSHKey(t).PublicKey(), identity),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Head(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want a timeout", err)
	}
}
