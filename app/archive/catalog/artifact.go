package catalog

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path"
	"time"
)

// Role is what an artifact is for.
type Role string

// The roles.
const (
	Payload   Role = "payload"
	Backup    Role = "backup"
	Metadata  Role = "metadata"
	Signature Role = "signature"
)

// Artifact is a file of an archive. A job has at most one under a path.
type Artifact struct {
	ID             int64 // set by the catalog
	Job            string
	Activity       string // id in the source; empty: of the whole archive
	Path           string // relative, with slashes
	Key            string // in storage locations; empty: JOB/PATH
	Size           int64
	SHA256         string // hexadecimal, lower case
	SHA512         string
	MIME           string
	Role           Role
	OriginSHA1     string
	OriginURL      string
	OriginModified time.Time
	Created        time.Time
}

const artifactFacts = `job, activity, path, key, size, sha256, sha512, mime, role, origin_sha1, origin_url,
	origin_modified, created`

const artifactColumns = "id, " + artifactFacts

func scanArtifact(r row) (a Artifact, err error) {
	err = r.Scan(&a.ID, &a.Job, &a.Activity, &a.Path, &a.Key, &a.Size, &a.SHA256, &a.SHA512, &a.MIME, &a.Role,
		&a.OriginSHA1, &a.OriginURL, instant{&a.OriginModified}, instant{&a.Created})
	return a, err
}

// PutArtifacts enters files of an archive, all or none. An artifact whose content changed is replaced as long as no
// storage location has a copy of it; then it is [ErrConflict].
func (c *Catalog) PutArtifacts(ctx context.Context, job string, all []Artifact) error {
	for _, a := range all {
		if err := a.check(); err != nil {
			return err
		}
	}
	return c.enter(ctx, "put artifacts", func(tx *sql.Tx) error {
		archive, err := scanArchive(tx.QueryRowContext(ctx,
			"SELECT "+archiveColumns+" FROM archives WHERE job = ?", job))
		if errors.Is(err, sql.ErrNoRows) {
			err = fmt.Errorf("archive %s: %w", job, ErrNotFound)
		}
		if err != nil {
			return err
		}
		for _, a := range all {
			if err := putArtifact(ctx, tx, archive, a); err != nil {
				return err
			}
		}
		return nil
	})
}

// check refuses sums that are none (a wrong sum is never stored).
func (a *Artifact) check() error {
	if a.Path == "" || a.Size < 0 || !digest(a.SHA256, 64) || !digest(a.SHA512, 128) {
		return fmt.Errorf("catalog: artifact %q needs a path, a size, and digests in lower-case hexadecimal", a.Path)
	}
	return nil
}

func digest(s string, length int) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return len(s) == length
}

func putArtifact(ctx context.Context, tx *sql.Tx, archive Archive, a Artifact) error {
	job := archive.Job
	a.Key = cmp.Or(a.Key, path.Join(job, a.Path))
	had, err := scanArtifact(tx.QueryRowContext(ctx,
		"SELECT "+artifactColumns+" FROM artifacts WHERE job = ? AND path = ?", job, a.Path))
	switch {
	case errors.Is(err, sql.ErrNoRows) && archive.Outcome == Deleted:
		return fmt.Errorf("%w: archive %s is deleted", ErrConflict, job)
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return err
	case had.Size == a.Size && had.SHA256 == a.SHA256 && had.SHA512 == a.SHA512 && had.Key == a.Key:
		return nil
	default:
		var stored bool
		if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM copies WHERE artifact = ?)", had.ID).
			Scan(&stored); err != nil {
			return err
		}
		if stored {
			return fmt.Errorf("%w: %s of archive %s is stored with the SHA-256 %s", ErrConflict, a.Path, job,
				had.SHA256)
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM artifacts WHERE id = ?", had.ID); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO artifacts (`+artifactFacts+`)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		job, a.Activity, a.Path, a.Key, a.Size, a.SHA256, a.SHA512, a.MIME, a.Role, a.OriginSHA1, a.OriginURL,
		sorted(a.OriginModified), sorted(a.Created))
	return err
}

// Artifacts lists files of an archive in order of their paths, from the one after a path on.
func (c *Catalog) Artifacts(ctx context.Context, job, after string, limit int) ([]Artifact, error) {
	return each(ctx, c.read, scanArtifact,
		"SELECT "+artifactColumns+" FROM artifacts WHERE job = ? AND path > ? ORDER BY path LIMIT ?",
		job, after, page(limit))
}

// Artifact gives a file of an archive.
func (c *Catalog) Artifact(ctx context.Context, job, path string) (Artifact, error) {
	return one(path+" of archive "+job, c.read.QueryRowContext(ctx,
		"SELECT "+artifactColumns+" FROM artifacts WHERE job = ? AND path = ?", job, path), scanArtifact)
}

// ArtifactsOf lists the artifacts with a SHA-256, of all archives.
func (c *Catalog) ArtifactsOf(ctx context.Context, sha256 string, limit int) ([]Artifact, error) {
	return each(ctx, c.read, scanArtifact,
		"SELECT "+artifactColumns+" FROM artifacts WHERE sha256 = ? ORDER BY id LIMIT ?", sha256, page(limit))
}

// ArtifactsWith lists the artifacts of an archive with a SHA-512.
func (c *Catalog) ArtifactsWith(ctx context.Context, job, sha512 string) ([]Artifact, error) {
	return each(ctx, c.read, scanArtifact,
		"SELECT "+artifactColumns+" FROM artifacts WHERE job = ? AND sha512 = ? ORDER BY id", job, sha512)
}

// whileMade calls do with an archive that has not ended.
func whileMade(ctx context.Context, tx *sql.Tx, job string, do func(Archive) error) error {
	a, err := scanArchive(tx.QueryRowContext(ctx, "SELECT "+archiveColumns+" FROM archives WHERE job = ?", job))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("archive %s: %w", job, ErrNotFound)
	case err != nil:
		return err
	case a.Outcome != Making:
		return fmt.Errorf("%w: archive %s ended as %s", ErrConflict, job, a.Outcome)
	}
	return do(a)
}
