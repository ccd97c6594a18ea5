package archiveconfig

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/job"
)

// Pool has what configurations opened. A source or location that a later configuration has unchanged stays open, with
// its connections; one that it changed or dropped stays open for the jobs that use it, until Close.
type Pool struct {
	scratch string       // directory of unfinished downloads
	log     *slog.Logger // of sources; nil: none

	mu      sync.Mutex     // guards the rest
	open    map[string]any // by the name and the digest of the settings
	closers []func() error
}

// NewPool makes a pool. Unfinished downloads of web sources are below the directory scratch, which need not exist. log
// gets why their hosts cannot be reached; nil: nothing does.
func NewPool(scratch string, log *slog.Logger) *Pool {
	return &Pool{scratch: scratch, log: log, open: map[string]any{}}
}

// Close closes everything.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, one := range slices.Backward(p.closers) {
		errs = append(errs, one())
	}
	p.closers, p.open = nil, map[string]any{}
	return errors.Join(errs...)
}

// opened gives what a key stands for. It is opened if it is not yet; close may be nil.
func opened[T any](p *Pool, key string, open func() (T, func() error, error)) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, ok := p.open[key].(T); ok {
		return one, nil
	}
	one, closer, err := open()
	if err != nil {
		return one, err
	}
	p.open[key] = one
	if closer != nil {
		p.closers = append(p.closers, closer)
	}
	return one, nil
}

// keyOf identifies settings, with the content of their secrets.
func keyOf(kind, name string, settings any, secrets ...string) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%v", json.NewEncoder(sum).Encode(settings))
	for _, file := range secrets {
		text, err := os.ReadFile(file)
		fmt.Fprintf(sum, "%d %t", len(text), err == nil)
		sum.Write(text)
	}
	return kind + " " + name + " " + hex.EncodeToString(sum.Sum(nil))
}

// Parts is what a configuration names. It implements [archive.Sources].
type Parts struct {
	Config      *Config
	Targets     []copies.Target // by name
	Authorities []*timestamp.Authority
	Retired     []*x509.Certificate
	Objects     map[string]*ocfl.Root

	pool *Pool
}

// Open opens what the configuration names. The error is [yamlfile.Mistakes]: secrets that cannot be read, and
// certificates. A directory that does not exist is none: it may be mounted later.
func (c *Config) Open(pool *Pool) (*Parts, error) {
	p := &Parts{Config: c, pool: pool, Objects: map[string]*ocfl.Root{}}
	c.checkSecrets()
	for i, a := range c.Authorities {
		one, err := a.open()
		if err != nil {
			c.wrong([]string{"authorities", fmt.Sprint(i)}, "%v", err)
		}
		p.Authorities = append(p.Authorities, one)
	}
	for i, file := range c.RetiredRoots {
		all, err := certificates(file)
		if err != nil {
			c.wrong([]string{"retired_roots", fmt.Sprint(i)}, "%v", err)
		}
		p.Retired = append(p.Retired, all...)
	}
	if err := c.file.Err(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Locations)) {
		t, err := pool.target(name, c.Locations[name])
		if err != nil {
			c.wrong([]string{"locations", name}, "%v", err)
		}
		p.Targets = append(p.Targets, t)
	}
	for name, d := range c.Objects {
		root, err := opened(pool, keyOf("objects", name, d), func() (*ocfl.Root, func() error, error) {
			return openObjects(d.Path)
		})
		if err != nil {
			c.wrong([]string{"objects", name}, "%v", err)
		}
		p.Objects[name] = root
	}
	for name, s := range c.Sources {
		if s.Moodle == nil {
			continue
		}
		if _, err := p.Source(name); err != nil {
			c.wrong([]string{"sources", name, "moodle"}, "%v", err)
		}
	}
	return p, c.file.Err()
}

// openObjects opens an OCFL storage root in an existing directory, or makes one there.
func openObjects(name string) (*ocfl.Root, func() error, error) {
	if _, err := os.Stat(name); err != nil {
		return nil, nil, err
	}
	root, err := ocfl.InitRoot(name, ocfl.DefaultLayout())
	if err != nil {
		return nil, nil, err
	}
	return root, root.Close, nil
}

// checkSecrets notes secrets that cannot be read.
func (c *Config) checkSecrets() {
	check := func(name string, key ...string) {
		if name == "" {
			return
		}
		if _, err := secretfile.Read(name); err != nil {
			c.wrong(key, "%v", err)
		}
	}
	for name, s := range c.Sources {
		if s.Moodle != nil {
			check(s.Moodle.TokenFile, "sources", name, "moodle", "token_file")
			check(s.Moodle.PasswordFile, "sources", name, "moodle", "password_file")
		}
	}
	for name, l := range c.Locations {
		if l.S3 != nil {
			check(l.S3.AccessKeyFile, "locations", name, "s3", "access_key_file")
			check(l.S3.SecretKeyFile, "locations", name, "s3", "secret_key_file")
		}
		if l.SFTP != nil {
			check(l.SFTP.KeyFile, "locations", name, "sftp", "key_file")
			check(l.SFTP.PasswordFile, "locations", name, "sftp", "password_file")
		}
	}
	for name, r := range c.Receivers {
		check(r.SecretFile, "receivers", name, "secret_file")
	}
	for name, w := range c.Webhooks {
		check(w.SecretFile, "webhooks", name, "secret_file")
	}
	c.checkQuizTokens()
	for i, p := range c.Printers {
		check(p.TokenFile, "printers", fmt.Sprint(i), "token_file")
	}
	for i, a := range c.Authorities {
		check(a.PasswordFile, "authorities", fmt.Sprint(i), "password_file")
		check(a.TokenFile, "authorities", fmt.Sprint(i), "token_file")
	}
}

func (a *Authority) open() (*timestamp.Authority, error) {
	return timestamp.NewAuthority(timestamp.Settings{
		Name: a.Name, URL: a.URL, Roots: a.Roots, Policy: a.Policy, Hash: a.Hash, User: a.User,
		PasswordFile: a.PasswordFile, TokenFile: a.TokenFile, Timeout: a.Timeout.Duration,
	})
}

// certificates reads the certificates of a file.
func certificates(name string) (all []*x509.Certificate, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no certificate in PEM", name)
	}
	return all, nil
}

// Names lists the sources.
func (p *Parts) Names() []string { return slices.Sorted(maps.Keys(p.Config.Sources)) }

// Source gives a source by its name. An unknown name is of kind Invalid, one that cannot be opened Unavailable.
func (p *Parts) Source(name string) (source.Source, error) {
	s, ok := p.Config.Sources[name]
	if !ok {
		return nil, job.Errorf(job.Invalid, "archive", "", "there is no source %q (known: %s)", name,
			strings.Join(p.Names(), ", "))
	}
	one, err := p.pool.source(name, s)
	if err != nil {
		return nil, job.Errorf(job.Unavailable, "archive", "", "source %s: %w", name, err)
	}
	return one, nil
}

// Describe describes a storage location for the metadata of a package.
func (p *Parts) Describe(name string) packaging.Location {
	l, ok := p.Config.Locations[name]
	d := packaging.Location{Name: name, Tier: l.tier()}
	switch {
	case !ok:
		return packaging.Location{Name: name}
	case l.S3 != nil:
		d.Kind, d.Address = "s3", "s3://"+l.S3.Endpoint+"/"+l.S3.Bucket
	case l.SFTP != nil:
		d.Kind, d.Address = "sftp", "sftp://"+l.SFTP.Address+"/"+strings.TrimPrefix(l.SFTP.Dir, "/")
	default:
		d.Kind, d.Address = "directory", l.Directory.Path
	}
	return d
}

func (l *Location) tier() string {
	if l.Directory != nil {
		return cmp.Or(l.Tier, "local")
	}
	return cmp.Or(l.Tier, "fast")
}
