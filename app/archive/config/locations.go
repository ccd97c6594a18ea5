package archiveconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/internal/secretfile"
)

// target opens a location, unless it is open.
func (p *Pool) target(name string, l Location) (t copies.Target, err error) {
	parallel := l.Parallel
	l.Parallel = 0 // it is no property of the location
	switch {
	case l.S3 != nil:
		key := keyOf("location", name, l, l.S3.AccessKeyFile, l.S3.SecretKeyFile)
		t, err = opened(p, key, func() (copies.Target, func() error, error) { return openS3(name, l) })
	case l.SFTP != nil:
		key := keyOf("location", name, l, l.SFTP.KeyFile, l.SFTP.PasswordFile, l.SFTP.KnownHosts)
		t, err = opened(p, key, func() (copies.Target, func() error, error) { return openSFTP(name, l) })
	default:
		t, err = opened(p, keyOf("location", name, l), func() (copies.Target, func() error, error) {
			d := &dir{path: l.Directory.Path, tier: storage.Tier(l.tier())}
			return copies.Target{Name: name, At: d}, d.Close, nil
		})
	}
	t.Parallel = parallel
	return t, err
}

func openS3(name string, l Location) (t copies.Target, closer func() error, err error) {
	o := storage.S3Options{
		Endpoint: l.S3.Endpoint, Insecure: l.S3.Insecure, Region: l.S3.Region, Bucket: l.S3.Bucket,
		Prefix: strings.Trim(l.S3.Prefix, "/"), PathStyle: l.S3.PathStyle, StorageClass: l.S3.StorageClass,
		Tier: storage.Tier(l.tier()), PartSize: int64(l.S3.PartSize),
	}
	if o.AccessKey, err = secretfile.Read(l.S3.AccessKeyFile); err != nil {
		return t, nil, err
	}
	if o.SecretKey, err = secretfile.Read(l.S3.SecretKeyFile); err != nil {
		return t, nil, err
	}
	t.Name = name
	if l.S3.ObjectLock != "" {
		t.Locks = &copies.Locks{Mode: strings.ToUpper(l.S3.ObjectLock)}
		o.Lock = t.Locks.Lock
	}
	s, err := storage.OpenS3(o)
	if err != nil {
		return t, nil, err
	}
	if t.At = s; l.S3.LegalHold {
		t.Hold = s.Hold
	}
	return t, s.Close, nil
}

func openSFTP(name string, l Location) (t copies.Target, closer func() error, err error) {
	o := storage.SFTPOptions{Address: l.SFTP.Address, User: l.SFTP.User, Dir: l.SFTP.Dir, Tier: storage.Tier(l.tier())}
	if o.HostKey, err = knownhosts.New(l.SFTP.KnownHosts); err != nil {
		return t, nil, fmt.Errorf("known_hosts: %w", err)
	}
	secret, err := secretfile.Read(cmp.Or(l.SFTP.KeyFile, l.SFTP.PasswordFile))
	if err != nil {
		return t, nil, err
	}
	if l.SFTP.KeyFile == "" {
		o.Auth = []ssh.AuthMethod{ssh.Password(secret)}
	} else {
		key, err := ssh.ParsePrivateKey([]byte(secret + "\n"))
		if err != nil {
			return t, nil, fmt.Errorf("key_file: %w", err)
		}
		o.Auth = []ssh.AuthMethod{ssh.PublicKeys(key)}
	}
	s, err := storage.OpenSFTP(o)
	if err != nil {
		return t, nil, err
	}
	return copies.Target{Name: name, At: s}, s.Close, nil
}

// dir is a directory as a location. The directory is opened when it is used, and again when another one is at its path:
// a file system can be mounted while the server runs, and one that is not mounted does not keep it from starting.
type dir struct {
	path string
	tier storage.Tier

	mu   sync.Mutex // guards the rest
	now  *storage.Dir
	was  fs.FileInfo // of now
	past []*storage.Dir
}

// use gives the directory that is at the path now.
func (d *dir) use() (*storage.Dir, error) {
	info, err := os.Stat(d.path)
	if err != nil {
		// not as a cause: a missing directory is no missing file
		return nil, &storage.Error{Location: d.path, Op: "open", Err: errors.New(err.Error()), Transient: true}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now != nil && os.SameFile(info, d.was) {
		return d.now, nil
	}
	fresh, err := storage.OpenDir(d.path, d.tier)
	if err != nil {
		return nil, &storage.Error{Location: d.path, Op: "open", Err: errors.New(err.Error()), Transient: true}
	}
	if d.now != nil {
		d.past = append(d.past, d.now)
	}
	d.now, d.was = fresh, info
	return fresh, nil
}

// Put implements [storage.Location].
func (d *dir) Put(ctx context.Context, key string, src io.ReaderAt, c storage.Content, p *storage.Progress) error {
	at, err := d.use()
	if err != nil {
		return err
	}
	return at.Put(ctx, key, src, c, p)
}

// Open implements [storage.Location].
func (d *dir) Open(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	at, err := d.use()
	if err != nil {
		return nil, err
	}
	return at.Open(ctx, key, offset)
}

// Stat implements [storage.Location].
func (d *dir) Stat(ctx context.Context, key string) (storage.Stat, error) {
	at, err := d.use()
	if err != nil {
		return storage.Stat{}, err
	}
	return at.Stat(ctx, key)
}

// Delete implements [storage.Location].
func (d *dir) Delete(ctx context.Context, key string) error {
	at, err := d.use()
	if err != nil {
		return err
	}
	return at.Delete(ctx, key)
}

// Abandon implements [storage.Location].
func (d *dir) Abandon(ctx context.Context, key string, p *storage.Progress) error {
	at, err := d.use()
	if err != nil {
		return err
	}
	return at.Abandon(ctx, key, p)
}

// Recall implements [storage.Location].
func (d *dir) Recall(ctx context.Context, key string) (bool, error) {
	at, err := d.use()
	if err != nil {
		return false, err
	}
	return at.Recall(ctx, key)
}

// Free implements [storage.Location].
func (d *dir) Free(ctx context.Context) (int64, error) {
	at, err := d.use()
	if err != nil {
		return 0, err
	}
	return at.Free(ctx)
}

// Properties implements [storage.Location].
func (d *dir) Properties() storage.Properties { return storage.Properties{Name: d.path, Tier: d.tier} }

// Close implements [storage.Location].
func (d *dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	if d.now != nil {
		errs = append(errs, d.now.Close())
	}
	for _, one := range d.past {
		errs = append(errs, one.Close())
	}
	d.now, d.past = nil, nil
	return errors.Join(errs...)
}
