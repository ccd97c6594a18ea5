package storage_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/edge/storage/storagetest"
)

// sftpServer serves the file system of this machine to a user "archive" with the password "secret".
type sftpServer struct {
	address string
	host    ssh.PublicKey
	limit   atomic.Int64 // bytes from clients after which a connection breaks; zero: none
	logins  atomic.Int64
}

func newSFTPServer(t *testing.T) *sftpServer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PasswordCallback: func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if c.User() != "archive" || string(password) != "secret" {
			return nil, errors.New("wrong password")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sftpServer{address: l.Addr().String(), host: signer.PublicKey()}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.serve(&limited{Conn: conn, left: s.limit.Load()}, config) })
		}
	})
	return s
}

// limited breaks a connection after a number of bytes from the client.
type limited struct {
	net.Conn
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.left > 0 {
		if l.left -= int64(n); l.left <= 0 {
			_ = l.Conn.Close()
			return 0, io.ErrUnexpectedEOF
		}
	}
	return n, err
}

func (s *sftpServer) serve(raw net.Conn, config *ssh.ServerConfig) {
	defer raw.Close()
	_, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		return
	}
	s.logins.Add(1)
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				_ = r.Reply(r.Type == "subsystem", nil)
			}
		}()
		server, err := sftp.NewServer(channel)
		if err != nil {
			return
		}
		go func() { _ = server.Serve(); _ = channel.Close() }()
	}
}

func (s *sftpServer) open(t *testing.T, dir string, change func(*storage.SFTPOptions)) *storage.SFTP {
	t.Helper()
	o := storage.SFTPOptions{
		Address: s.address, User: "archive", Auth: []ssh.AuthMethod{ssh.Password("secret")},
		HostKey: ssh.FixedHostKey(s.host), Dir: dir,
	}
	if change != nil {
		change(&o)
	}
	p, err := storage.OpenSFTP(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestSFTP(t *testing.T) {
	storagetest.Run(t, newSFTPServer(t).open(t, t.TempDir(), nil), 33<<20)
}

// TestSFTPConnectionBreaks: the next attempt connects again, and continues after the bytes that are there for certain.
func TestSFTPConnectionBreaks(t *testing.T) {
	s := newSFTPServer(t)
	p := s.open(t, t.TempDir(), nil)
	b := storagetest.Bytes(40<<20, 1)
	for i, limit := range []int64{1 << 20, 18 << 20, 35 << 20} {
		_ = p.Close()
		s.limit.Store(limit)
		key := fmt.Sprint(i)
		progress := &storage.Progress{}
		err := storagetest.Try(t, p, key, b, progress)
		var e *storage.Error
		if !errors.As(err, &e) || !e.Temporary() {
			t.Fatalf("got %v", err)
		}
		if (limit > 17<<20) != (progress.State != nil) {
			t.Errorf("after %d bytes the state is %s", limit, progress.State)
		}
		s.limit.Store(0)
		storagetest.Missing(t, p, key)
		if err := storagetest.Try(t, p, key, b, progress); err != nil {
			t.Fatal(err)
		}
		if err := storage.Verify(t.Context(), p, key, storagetest.Of(b), nil); err != nil {
			t.Error(err)
		}
	}
	if n := s.logins.Load(); n != 6 {
		t.Errorf("%d logins", n)
	}
}

// TestSFTPDamagedPart: what an earlier connection wrote is read before it gets its name.
func TestSFTPDamagedPart(t *testing.T) {
	s, dir := newSFTPServer(t), t.TempDir()
	p := s.open(t, dir, nil)
	b := storagetest.Bytes(40<<20, 1)
	s.limit.Store(35 << 20)
	progress := &storage.Progress{}
	if err := storagetest.Try(t, p, "a", b, progress); err == nil || progress.State == nil {
		t.Fatalf("got %v, state %s", err, progress.State)
	}
	s.limit.Store(0)
	f, err := os.OpenFile(filepath.Join(dir, storage.PartOf("a")), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{b[1000] ^ 1}, 1000); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := storagetest.Try(t, p, "a", b, progress); !errors.Is(err, storage.ErrDamage) {
		t.Errorf("got %v", err)
	}
	storagetest.Missing(t, p, "a")
	if err := storagetest.Try(t, p, "a", b, progress); err != nil { // it begins anew
		t.Error(err)
	}
	if err := storage.Verify(t.Context(), p, "a", storagetest.Of(b), nil); err != nil {
		t.Error(err)
	}
}

// TestSFTPLogin: a wrong password and another host key do not pass; a server that does not answer does.
func TestSFTPLogin(t *testing.T) {
	s := newSFTPServer(t)
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for name, c := range map[string]struct {
		change    func(*storage.SFTPOptions)
		temporary bool
	}{
		"password": {func(o *storage.SFTPOptions) { o.Auth = []ssh.AuthMethod{ssh.Password("other")} }, false},
		"host key": {func(o *storage.SFTPOptions) { o.HostKey = ssh.FixedHostKey(other) }, false},
		"closed":   {func(o *storage.SFTPOptions) { o.Address = closed.Addr().String() }, true},
	} {
		p := s.open(t, t.TempDir(), c.change)
		_, err := p.Free(t.Context())
		var e *storage.Error
		if !errors.As(err, &e) || e.Temporary() != c.temporary {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := s.open(t, filepath.Join(t.TempDir(), "none"), nil)
	if _, err := p.Free(t.Context()); err == nil {
		t.Error("a missing directory is usable")
	}
}
