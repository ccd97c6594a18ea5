package archiveserve

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/sign"
	"github.com/stagepost/stagepost/internal/durable"
)

// renew renews the time stamps whose certificates expire soon.
func (a *App) renew(ctx context.Context) error {
	signer := a.live.now.Load().signer
	if signer == nil {
		return nil
	}
	r := &renewer{
		dir: filepath.Join(a.dir, renewalsName), catalog: a.Catalog, copies: a.Copies, signer: signer,
		point: func(string) error { return nil },
	}
	return r.run(ctx)
}

// renewer renews time stamps. Each renewal has a directory from before its first request until its files are stored, so
// that one that was interrupted is continued.
type renewer struct {
	dir     string // of the renewals
	catalog *catalog.Catalog
	copies  *copies.Store
	signer  *sign.Signer
	point   func(name string) error // called before each step that a crash can separate; a test replaces it
}

// run renews what is due.
func (r *renewer) run(ctx context.Context) error {
	jobs, err := list(r.dir)
	if err != nil {
		return err
	}
	tokens, err := r.signer.Expiring(ctx, batch)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		jobs = append(jobs, t.Job)
	}
	var errs []error
	done := map[string]bool{}
	for _, id := range jobs {
		if done[id] || ctx.Err() != nil {
			continue
		}
		done[id] = true
		if err := r.job(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("time stamps of archive %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// job renews the time stamps of an archive that are due, and stores their files.
func (r *renewer) job(ctx context.Context, id string) (err error) {
	dir := filepath.Join(r.dir, id)
	if err := r.point("begin"); err != nil {
		return err
	}
	if err := durable.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	archived, err := r.catalog.Archive(ctx, id)
	if err == nil && archived.Outcome == catalog.Complete {
		err = r.renewIn(ctx, &archived, dir)
	}
	if err != nil && !errors.Is(err, catalog.ErrNotFound) {
		return err
	}
	if err := r.point("end"); err != nil {
		return err
	}
	return os.RemoveAll(dir) // the archive is complete, or was deleted meanwhile
}

func (r *renewer) renewIn(ctx context.Context, of *catalog.Archive, dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	tokens, err := r.catalog.Tokens(ctx, of.Job)
	if err != nil {
		return err
	}
	var fresh []catalog.Artifact
	seen := map[string]bool{}
	for _, t := range tokens {
		if seen[t.Path] {
			continue
		}
		seen[t.Path] = true
		if err := r.fetch(ctx, root, of.Job, t.Path); err != nil {
			return err
		}
		got, _, err := r.signer.Renew(ctx, sign.Document{
			Job: of.Job, Path: t.Path, Dir: root,
			Open: func() (io.ReadCloser, error) { return root.Open(t.Path) },
		})
		if err != nil {
			return err
		}
		for _, name := range got.Files {
			one, err := signature(root, name)
			if err != nil {
				return err
			}
			one.Job, one.Created = of.Job, got.Token.Time.UTC()
			fresh = append(fresh, one)
		}
	}
	if err := r.catalog.PutArtifacts(ctx, of.Job, fresh); err != nil {
		return err
	}
	return r.storeRenewal(ctx, root, of)
}

// storeRenewal stores the new files where the archive is. What a location lacks of the others is read from a copy.
func (r *renewer) storeRenewal(ctx context.Context, root *os.Root, of *catalog.Archive) error {
	var s archive.Settings
	if err := json.Unmarshal(of.Settings, &s); err != nil {
		return err
	}
	q, err := copies.ParseQuorum(s.Quorum)
	if err != nil {
		return err
	}
	all, err := r.catalog.Copies(ctx, of.Job, "")
	if err != nil {
		return err
	}
	ask := copies.Request{
		Job: of.Job, Policy: copies.Policy{Locations: s.Locations, Quorum: q},
		Open: func(name string) (copies.Source, error) {
			if err := r.fetch(ctx, root, of.Job, name); err != nil {
				return nil, err
			}
			return root.Open(name)
		},
	}
	for i := range all {
		if c := &all[i]; c.Deleted.IsZero() && c.Retain.After(ask.Retain) {
			ask.Retain = c.Retain
		}
	}
	_, err = r.copies.Save(ctx, ask)
	return err
}

// fetch copies an artifact into a directory, unless it is there.
func (r *renewer) fetch(ctx context.Context, root *os.Root, id, name string) error {
	if _, err := root.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := r.point("fetch " + name); err != nil {
		return err
	}
	from, err := r.copies.Open(ctx, id, name, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := root.MkdirAll(path.Dir(name), 0o750); err != nil {
		return err
	}
	return durable.File{Root: root, Name: name, Mode: 0o640}.Write(func(f *os.File) error {
		_, err := io.Copy(f, from)
		return err
	})
}

// signature describes a file of a time stamp.
func signature(root *os.Root, name string) (s catalog.Artifact, err error) {
	f, err := root.Open(name)
	if err != nil {
		return s, err
	}
	defer f.Close()
	one, two := sha256.New(), sha512.New()
	s = catalog.Artifact{Path: name, Role: catalog.Signature}
	s.Size, err = io.Copy(io.MultiWriter(one, two), f)
	s.SHA256, s.SHA512 = hex.EncodeToString(one.Sum(nil)), hex.EncodeToString(two.Sum(nil))
	return s, err
}
