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
PRAGMA user_version = 1;
