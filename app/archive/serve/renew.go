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

// renew renews the time stamps whose certificates expire soon. Each renewal has a directory from before its first
// request until its files are stored, so that one that was interrupted is continued.
func (a *App) renew(ctx context.Context) error {
	signer := a.live.now.Load().signer
	if signer == nil {
		return nil
	}
	base := filepath.Join(a.dir, renewalsName)
	jobs, err := list(base)
	if err != nil {
		return err
	}
	tokens, err := signer.Expiring(ctx, batch)
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
		if err := a.renewJob(ctx, signer, id); err != nil {
			errs = append(errs, fmt.Errorf("time stamps of archive %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// renewJob renews the time stamps of an archive that are due, and stores their files.
func (a *App) renewJob(ctx context.Context, signer *sign.Signer, id string) (err error) {
	dir := filepath.Join(a.dir, renewalsName, id)
	if err := durable.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	archived, err := a.Catalog.Archive(ctx, id)
	if err == nil && archived.Outcome == catalog.Complete {
		err = a.renewIn(ctx, signer, &archived, dir)
	}
	if err != nil && !errors.Is(err, catalog.ErrNotFound) {
		return err
	}
	return os.RemoveAll(dir) // the archive is complete, or was deleted meanwhile
}

func (a *App) renewIn(ctx context.Context, signer *sign.Signer, of *catalog.Archive, dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	tokens, err := a.Catalog.Tokens(ctx, of.Job)
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
		if err := a.fetch(ctx, root, of.Job, t.Path); err != nil {
			return err
		}
		r, _, err := signer.Renew(ctx, sign.Document{
			Job: of.Job, Path: t.Path, Dir: root,
			Open: func() (io.ReadCloser, error) { return root.Open(t.Path) },
		})
		if err != nil {
			return err
		}
		for _, name := range r.Files {
			one, err := signature(root, name)
			if err != nil {
				return err
			}
			one.Job, one.Created = of.Job, r.Token.Time.UTC()
			fresh = append(fresh, one)
		}
	}
	if err := a.Catalog.PutArtifacts(ctx, of.Job, fresh); err != nil {
		return err
	}
	return a.storeRenewal(ctx, root, of)
}

// storeRenewal stores the new files where the archive is. What a location lacks of the others is read from a copy.
func (a *App) storeRenewal(ctx context.Context, root *os.Root, of *catalog.Archive) error {
	var s archive.Settings
	if err := json.Unmarshal(of.Settings, &s); err != nil {
		return err
	}
	q, err := copies.ParseQuorum(s.Quorum)
	if err != nil {
		return err
	}
	all, err := a.Catalog.Copies(ctx, of.Job, "")
	if err != nil {
		return err
	}
	r := copies.Request{
		Job: of.Job, Policy: copies.Policy{Locations: s.Locations, Quorum: q},
		Open: func(name string) (copies.Source, error) {
			if err := a.fetch(ctx, root, of.Job, name); err != nil {
				return nil, err
			}
			return root.Open(name)
		},
	}
	for i := range all {
		if c := &all[i]; c.Deleted.IsZero() && c.Retain.After(r.Retain) {
			r.Retain = c.Retain
		}
	}
	_, err = a.Copies.Save(ctx, r)
	return err
}

// fetch copies an artifact into a directory, unless it is there.
func (a *App) fetch(ctx context.Context, root *os.Root, id, name string) error {
	if _, err := root.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	from, err := a.Copies.Open(ctx, id, name, 0)
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
