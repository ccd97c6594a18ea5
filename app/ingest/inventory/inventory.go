// Package inventory is the index of what is stored: objects, their versions, files, digests and storage locations, and
// which identifier belongs to which local id. It lives in one SQLite file beside the store's, or in a schema of a
// PostgreSQL database, which servers share. Every method may be called again with the same job: the second call finds
// what the first did.
//
//	objects    one row per ARK: who owns it, what it is called, its newest version
//	versions   one row per version, made by exactly one job
//	files      the files of each version with size and digests
//	copies     where each version is stored, under which name there (see schema1), and when it was last checked
//	local_ids  a depositor's own names, unique within an owner
//	depositors who deposited an object, from the moment it has an identifier, see permit.go
//	named      which job got which ARK: the reason why a job never mints twice
//	minters    how far each template has counted
//	locks      who may write what now, see lock.go
//	meta       the installation that the file belongs to, and how many names and versions were entered
//	locations  the storage locations that were used, each with its id
//	faults     stored files that were not as they should be when they were last read, see fixity.go
//	checks     the newest fixity check of each storage location that a person asked for
//	lost       versions that a record names and that no storage location had when the inventory was rebuilt
package inventory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stagepost/stagepost/internal/headfile"
	"github.com/stagepost/stagepost/internal/sqldb"
)

// Errors of this package, for errors.Is.
var (
	// ErrConflict: identifiers contradict each other, or an object belongs to another user.
	ErrConflict = errors.New("identifier conflict")
	// ErrNotFound: the inventory has no such object or version.
	ErrNotFound = errors.New("not found")
	// ErrDamaged: the file cannot be read as an inventory.
	ErrDamaged = errors.New("the file is damaged")
)

// Inventory is an open inventory. It is safe for concurrent use.
type Inventory struct {
	shared *sqldb.Shared // nil: it is a SQLite file
	write  *sql.DB       // of the file; one connection: writers queue here rather than in SQLite
	known  statements    // of write; used by the caller that has the turn
	read   *reader

	installation string
	unsynced     bool
	head         *headfile.File // of the file
	located      located

	dead   atomic.Pointer[error] // why nothing is written any more
	deaths chan error

	turn    chan struct{} // full while a transaction is under way
	relaxed bool          // commits do not sync, see pace; used by the caller that has the turn

	mu     sync.Mutex        // guards all below
	calls  []*call           // that wait for a transaction
	minted map[string]uint64 // by template: the number after the last one that was taken to be tried
}

func newInventory() *Inventory {
	return &Inventory{deaths: make(chan error, 1), turn: make(chan struct{}, 1), minted: map[string]uint64{}}
}

// schemas brings a file from each schema to the next: the first makes a new one. They are never changed once they were
// released.
var schemas = []string{schema1, schema2, schema3, schema4, schema5, schema6}

const schema1 = `
CREATE TABLE objects (
	ark TEXT PRIMARY KEY, owner TEXT NOT NULL, collection TEXT NOT NULL, profile TEXT NOT NULL,
	title TEXT NOT NULL, creator TEXT NOT NULL, date TEXT NOT NULL,
	head INTEGER NOT NULL, created TEXT NOT NULL, changed TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE versions (
	ark TEXT NOT NULL REFERENCES objects, version INTEGER NOT NULL, job TEXT NOT NULL UNIQUE, batch TEXT NOT NULL,
	submitter TEXT NOT NULL, note TEXT NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL, created TEXT NOT NULL,
	PRIMARY KEY (ark, version)
) WITHOUT ROWID;
CREATE TABLE files (
	ark TEXT NOT NULL, version INTEGER NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL,
	sha256 TEXT NOT NULL, sha512 TEXT NOT NULL, mime TEXT NOT NULL,
	PRIMARY KEY (ark, version, path), FOREIGN KEY (ark, version) REFERENCES versions
) WITHOUT ROWID;
CREATE INDEX files_sha256 ON files (sha256, ark);
CREATE INDEX files_sha512 ON files (sha512, ark);
CREATE TABLE places (
	ark TEXT NOT NULL, version INTEGER NOT NULL, place TEXT NOT NULL, name TEXT NOT NULL, checked TEXT NOT NULL,
	PRIMARY KEY (ark, version, place), FOREIGN KEY (ark, version) REFERENCES versions
) WITHOUT ROWID;
CREATE TABLE local_ids (
	owner TEXT NOT NULL, local_id TEXT NOT NULL, ark TEXT NOT NULL, job TEXT NOT NULL,
	PRIMARY KEY (owner, local_id)
) WITHOUT ROWID;
CREATE INDEX local_ids_ark ON local_ids (ark);
CREATE INDEX local_ids_id ON local_ids (local_id);
CREATE TABLE named (job TEXT PRIMARY KEY, ark TEXT NOT NULL, owner TEXT NOT NULL, minted INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX named_ark ON named (ark);
CREATE TABLE minters (template TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE writers (ark TEXT PRIMARY KEY, job TEXT NOT NULL) WITHOUT ROWID;
`

// schema2 puts all locks into one table. The token of a row is never given twice, also when the row is gone. What the
// locks of schema 1 were is taken over with epoch 0, which is older than any claim: the holder acquires it again,
// others wait for the holder as before.
const schema2 = `
CREATE TABLE locks (
	token INTEGER PRIMARY KEY AUTOINCREMENT,
	kind TEXT NOT NULL, name TEXT NOT NULL, job TEXT NOT NULL, epoch INTEGER NOT NULL, since TEXT NOT NULL, note TEXT NOT NULL,
	UNIQUE (kind, name)
);
CREATE INDEX locks_job ON locks (job);
INSERT INTO locks (kind, name, job, epoch, since, note)
	SELECT 'object', ark, job, 0, strftime('%Y-%m-%dT%H:%M:%SZ'), 'taken before the inventory had schema 2' FROM writers;
INSERT INTO locks (kind, name, job, epoch, since, note)
	SELECT 'local-id', owner || '/' || local_id, job, 0, strftime('%Y-%m-%dT%H:%M:%SZ'), 'taken before the inventory had schema 2'
	FROM local_ids WHERE ark = '';
DELETE FROM local_ids WHERE ark = '';
DROP TABLE writers;
`

// schema3 names the installation, so that the inventory of another one is noticed, and the storage locations, so that
// one that is not mounted is.
const schema3 = `
CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), installation TEXT NOT NULL, sequence INTEGER NOT NULL);
CREATE TABLE locations (place TEXT PRIMARY KEY, id TEXT NOT NULL, since TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE lost (job TEXT PRIMARY KEY, ark TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;
`

// schema4 adds who deposited each object. Of objects that are stored already it is the submitter of the first version.
const schema4 = `
CREATE TABLE depositors (ark TEXT PRIMARY KEY, depositor TEXT NOT NULL, profile TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX depositors_depositor ON depositors (depositor, ark);
CREATE INDEX objects_profile ON objects (profile, ark);
INSERT INTO depositors SELECT v.ark, v.submitter, o.profile FROM versions AS v JOIN objects AS o ON o.ark = v.ark
	WHERE v.version = (SELECT min(version) FROM versions WHERE ark = v.ark);
`

// schema5 is for fixity checks. The moments of checks get fractions of a second, so that they sort as text.
const schema5 = `
UPDATE places SET checked = replace(checked, 'Z', '.000000000Z');
CREATE INDEX places_checked ON places (place, checked);
CREATE TABLE faults (
	place TEXT NOT NULL, ark TEXT NOT NULL, version INTEGER NOT NULL, path TEXT NOT NULL,
	kind TEXT NOT NULL, algorithm TEXT NOT NULL, expected TEXT NOT NULL, found TEXT NOT NULL, detail TEXT NOT NULL, since TEXT NOT NULL,
	PRIMARY KEY (place, ark, version, path)
) WITHOUT ROWID;
CREATE TABLE checks (
	place TEXT PRIMARY KEY, began TEXT NOT NULL, ended TEXT NOT NULL, failure TEXT NOT NULL,
	versions INTEGER NOT NULL, files INTEGER NOT NULL, bytes INTEGER NOT NULL
) WITHOUT ROWID;
`

// schema6 has the files that fixity checks repaired from a copy in another storage location.
const schema6 = `
CREATE TABLE healed (
	place TEXT NOT NULL, ark TEXT NOT NULL, version INTEGER NOT NULL, path TEXT NOT NULL, source TEXT NOT NULL,
	at TEXT NOT NULL,
	PRIMARY KEY (ark, version, place, path, at)
) WITHOUT ROWID;
CREATE INDEX faults_ark ON faults (ark);
`

// Open opens the inventory in a file, and makes it when there never was one. The file belongs to the given installation
// from then on; without an installation it keeps the id that it has, or gets a random one. Beside it is a file with the
// number of its entries. The errors of package headfile and ErrDamaged refuse a file that is not the one that was
// written last. It needs another inventory then: that of the backup which the store is from, or a new one made of what
// is stored.
func Open(ctx context.Context, path, installation string) (*Inventory, error) {
	i := newInventory()
	if err := i.open(ctx, path, installation); err != nil {
		if sqldb.FaultOf(err) == sqldb.Corrupt {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return nil, fmt.Errorf("inventory %s: %w", path, errors.Join(err, i.Close()))
	}
	return i, nil
}

func (i *Inventory) open(ctx context.Context, path, installation string) (err error) {
	if err := headfile.Present(path); err != nil {
		return err
	}
	if err := sqldb.PrivateFile(path); err != nil {
		return err
	}
	sync := "synchronous(FULL)"
	if i.unsynced {
		sync = "synchronous(OFF)"
	}
	// A commit copies the log of the database into it when the log has 16 MiB: until then most pages change again.
	dsn := sqldb.FileDSN(path, "temp_store(MEMORY)", "wal_autocheckpoint(4000)", sync) + layer
	if i.write, err = sql.Open("sqlite", dsn); err != nil {
		return err
	}
	i.write.SetMaxOpenConns(1)
	if err := i.upgrade(ctx); err != nil {
		return err
	}
	sequence, err := i.identify(ctx, installation)
	if err != nil {
		return err
	}
	if i.head, err = headfile.Open(path, i.installation, sequence); err != nil {
		return err
	}
	i.read, err = openReader(dsn+"&_pragma=query_only(1)", 2)
	return err
}

func (i *Inventory) upgrade(ctx context.Context) error {
	return i.tx(ctx, func(tx *change) error { return sqldb.UpgradeFile(ctx, tx.Tx, schemas) })
}

// identify reads the installation that the inventory belongs to, or enters it.
func (i *Inventory) identify(ctx context.Context, want string) (sequence int64, err error) {
	s := i.side()
	i.installation, sequence, err = s.Identify(ctx, want)
	return sequence, err
}

// Installation gives the id of the installation that the inventory belongs to.
func (i *Inventory) Installation() string { return i.installation }

// Close closes the file, or the connections.
func (i *Inventory) Close() error {
	if i.shared != nil {
		return i.shared.Close()
	}
	var errs []error
	if i.read != nil {
		errs = append(errs, i.read.Close())
	}
	if i.write != nil {
		errs = append(errs, i.known.close(), i.write.Close())
	}
	if i.head != nil {
		errs = append(errs, i.head.Close())
	}
	return errors.Join(errs...)
}
