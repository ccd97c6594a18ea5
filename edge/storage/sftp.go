package storage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// SFTPOptions describe a directory of an SFTP server. Address, User, Auth, HostKey and Dir are required.
type SFTPOptions struct {
	Address string // host:port
	User    string
	Auth    []ssh.AuthMethod
	HostKey ssh.HostKeyCallback
	Dir     string        // an existing directory
	Tier    Tier          // defaults to Fast
	Idle    time.Duration // a connection without an answer for so long is closed; defaults to a minute
}

// SFTP is a directory of an SFTP server as a location (SSH file transfer protocol, version 3). It has one connection,
// which is made again when it breaks.
type SFTP struct {
	o    SFTPOptions
	keys keyed

	mu     sync.Mutex
	client *sftp.Client
	under  *ssh.Client
}

// sftpChunk is how much is sent before the progress is saved.
const sftpChunk = 16 << 20

// OpenSFTP makes a location of a directory. It makes no connection.
func OpenSFTP(o SFTPOptions) (*SFTP, error) {
	o.Tier, o.Idle = cmp.Or(o.Tier, Fast), cmp.Or(o.Idle, time.Minute)
	if o.Address == "" || o.User == "" || len(o.Auth) == 0 || o.HostKey == nil || o.Dir == "" {
		err := errors.New("address, user, key, host key and directory are required")
		return nil, &Error{Location: "sftp", Op: "open", Err: err}
	}
	return &SFTP{o: o}, nil
}

func (s *SFTP) name() string {
	return "sftp://" + s.o.User + "@" + s.o.Address + path.Join("/", s.o.Dir)
}

func (s *SFTP) fail(op, key string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	var login *ssh.ServerAuthError
	final := missing(err) && op != "put" || refused(err) || errors.Is(err, fs.ErrPermission) ||
		errors.As(err, &login) || errors.Is(err, errHostKey) || strings.Contains(err.Error(), "unable to authenticate")
	return &Error{Location: s.name(), Op: op, Key: key, Err: err, Transient: !final}
}

var errHostKey = errors.New("the key of the server is not the one that was configured")

// file calls an operation on a key.
func (s *SFTP) file(ctx context.Context, op, key string, f func(*sftp.Client) error) error {
	if err := CheckKey(key); err != nil {
		return s.fail(op, key, err)
	}
	return s.do(ctx, op, key, f)
}

// do calls an operation with a connection, and closes the connection if it broke.
func (s *SFTP) do(ctx context.Context, op, key string, f func(*sftp.Client) error) error {
	c, err := s.connect(ctx)
	if err == nil {
		if err = f(c); broken(err) {
			s.drop(c)
		}
	}
	return s.fail(op, key, err)
}

// broken reports whether an error is of the connection, not an answer of the server.
func broken(err error) bool {
	var answer *sftp.StatusError
	var network net.Error
	return err != nil && !errors.As(err, &answer) &&
		(errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
			errors.Is(err, net.ErrClosed) || errors.As(err, &network))
}

func (s *SFTP) connect(ctx context.Context) (*sftp.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	dialer := net.Dialer{Timeout: 30 * time.Second}
	raw, err := dialer.DialContext(ctx, "tcp", s.o.Address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // the handshake takes no context
	defer stop()
	config := &ssh.ClientConfig{
		User: s.o.User, Auth: s.o.Auth,
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			if err := s.o.HostKey(host, remote, key); err != nil {
				return fmt.Errorf("%w: %w", errHostKey, err)
			}
			return nil
		},
	}
	conn, channels, requests, err := ssh.NewClientConn(&idleConn{Conn: raw, idle: s.o.Idle}, s.o.Address, config)
	if err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	under := ssh.NewClient(conn, channels, requests)
	client, err := sftp.NewClient(under, sftp.UseConcurrentWrites(true))
	if err != nil {
		return nil, errors.Join(err, under.Close())
	}
	s.client, s.under = client, under
	return client, nil
}

func (s *SFTP) drop(c *sftp.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == c {
		_, _ = s.client.Close(), s.under.Close()
		s.client, s.under = nil, nil
	}
}

// idleConn fails when nothing comes for a time, so that a connection to a silent server ends.
type idleConn struct {
	net.Conn
	idle time.Duration
}

func (c *idleConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *idleConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (s *SFTP) path(name string) string { return path.Join(s.o.Dir, name) }

// sent is the state of a Put: how much of the part the server has for certain.
type sent struct {
	Bytes int64 `json:"bytes"`
}

// Put implements [Location]: it writes a part, continues it after a failure, and renames it.
func (s *SFTP) Put(ctx context.Context, key string, src io.ReaderAt, c Content, p *Progress) error {
	defer s.keys.lock(key)()
	found := false
	err := s.file(ctx, "put", key, func(client *sftp.Client) error {
		if _, err := client.Lstat(s.path(key)); err == nil || !missing(err) {
			found = err == nil
			return err
		}
		if err := client.MkdirAll(s.path(path.Dir(key))); err != nil {
			return err
		}
		if err := s.send(ctx, client, key, src, c, p); err != nil {
			return err
		}
		if _, err := client.Lstat(s.path(key)); err == nil { // some servers replace on rename
			found = true
			return nil
		}
		return client.Rename(s.path(part(key)), s.path(key))
	})
	if found && err == nil {
		err = existing(ctx, s, key, c)
	}
	return s.fail("put", key, err)
}

func (s *SFTP) send(
	ctx context.Context, client *sftp.Client, key string, src io.ReaderAt, c Content, p *Progress,
) (err error) {
	name := s.path(part(key))
	f, err := client.OpenFile(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var at sent
	if p != nil && len(p.State) > 0 && json.Unmarshal(p.State, &at) != nil {
		at = sent{}
	}
	if info, err := f.Stat(); err != nil || at.Bytes < 0 || at.Bytes > min(info.Size(), c.Size) {
		at = sent{} // the part was removed or cut
	}
	resumed := at.Bytes > 0
	if err := f.Truncate(at.Bytes); err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := copyPaced(ctx, sum, io.NewSectionReader(src, 0, at.Bytes), nil); err != nil {
		return err
	}
	for at.Bytes < c.Size {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(sftpChunk, c.Size-at.Bytes)
		if _, err := f.Seek(at.Bytes, io.SeekStart); err != nil {
			return err
		}
		if _, err := f.ReadFrom(io.TeeReader(&exact{io.NewSectionReader(src, at.Bytes, n), n}, sum)); err != nil {
			return err
		}
		at.Bytes += n
		if err := p.save(at); err != nil {
			return err
		}
	}
	if err := compare(c, at.Bytes, sum, ErrSource); err != nil {
		return errors.Join(err, client.Remove(name))
	}
	if _, ok := client.HasExtension("fsync@openssh.com"); ok {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if resumed { // what an earlier connection wrote is read before it gets its name
		return s.reread(ctx, client, name, c)
	}
	return nil
}

func (s *SFTP) reread(ctx context.Context, client *sftp.Client, name string, c Content) error {
	f, err := client.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := copyPaced(ctx, sum, f, nil)
	if err != nil {
		return err
	}
	if err := compare(c, n, sum, ErrDamage); err != nil {
		return errors.Join(err, client.Remove(name)) // the next attempt begins anew
	}
	return nil
}

// Open implements [Location].
func (s *SFTP) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	var out io.ReadCloser
	err := s.file(ctx, "open", key, func(client *sftp.Client) error {
		f, err := client.Open(s.path(key))
		if err != nil {
			return err
		}
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			return errors.Join(err, f.Close())
		}
		out = &sftpReader{File: f, s: s, client: client}
		return nil
	})
	return out, err
}

// sftpReader closes the connection if it breaks while a file is read.
type sftpReader struct {
	*sftp.File
	s      *SFTP
	client *sftp.Client
}

func (r *sftpReader) Read(p []byte) (int, error) {
	n, err := r.File.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && broken(err) {
		r.s.drop(r.client)
	}
	return n, err
}

// Stat implements [Location]. A server keeps no digests.
func (s *SFTP) Stat(ctx context.Context, key string) (Stat, error) {
	var out Stat
	err := s.file(ctx, "stat", key, func(client *sftp.Client) error {
		info, err := client.Lstat(s.path(key))
		switch {
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return fmt.Errorf("%w: it is not a file", ErrKey)
		}
		out.Size = info.Size()
		return nil
	})
	return out, err
}

// Delete implements [Location]. It removes directories that become empty.
func (s *SFTP) Delete(ctx context.Context, key string) error {
	defer s.keys.lock(key)()
	return s.file(ctx, "delete", key, func(client *sftp.Client) error {
		if err := client.Remove(s.path(key)); err != nil && !missing(err) {
			return err
		}
		for above := path.Dir(key); above != "."; above = path.Dir(above) {
			if client.RemoveDirectory(s.path(above)) != nil { // one that is not empty stays
				break
			}
		}
		return nil
	})
}

// Abandon implements [Location].
func (s *SFTP) Abandon(ctx context.Context, key string, _ *Progress) error {
	defer s.keys.lock(key)()
	return s.file(ctx, "abandon", key, func(client *sftp.Client) error {
		if err := client.Remove(s.path(part(key))); err != nil && !missing(err) {
			return err
		}
		return nil
	})
}

// Recall implements [Location]: files of a server can always be read.
func (s *SFTP) Recall(context.Context, string) (bool, error) { return true, nil }

// Free implements [Location]. A server without the extension statvfs@openssh.com states no free space.
func (s *SFTP) Free(ctx context.Context) (free int64, err error) {
	free = -1
	err = s.do(ctx, "free", "", func(client *sftp.Client) error {
		if info, err := client.Stat(s.o.Dir); err != nil {
			return err
		} else if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", s.o.Dir)
		}
		if _, ok := client.HasExtension("statvfs@openssh.com"); !ok {
			return nil
		}
		v, err := client.StatVFS(s.o.Dir)
		if err == nil {
			free = int64(v.Bavail * v.Frsize)
		}
		return err
	})
	return free, err
}

// Properties implements [Location].
func (s *SFTP) Properties() Properties { return Properties{Name: s.name(), Tier: s.o.Tier} }

// Close implements [Location].
func (s *SFTP) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		return nil
	}
	err := errors.Join(s.client.Close(), s.under.Close())
	s.client, s.under = nil, nil
	return err
}
