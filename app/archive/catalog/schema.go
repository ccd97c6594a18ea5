package catalog

// schemas brings a file from each schema to the next: the first makes a new one. They are never changed once they were
// released. A time is a text that sorts; empty: none.
var schemas = []string{schema1, schema2, schema3, schema4, schema5}

// schema5 adds the digest that the last fixity check of a corrupt copy found. Of a fault that is known already it is
// empty until the next check.
const schema5 = `ALTER TABLE copies ADD COLUMN found TEXT NOT NULL DEFAULT ''`

// schema4 adds the objects in which a job stores a version, so that the versions of a deleted archive are removed.
// Those of archives that were deleted before, and of failed jobs, are to be removed.
const schema4 = `
CREATE TABLE version_jobs (
	location TEXT NOT NULL, object TEXT NOT NULL, job TEXT NOT NULL, removing TEXT NOT NULL, by TEXT NOT NULL,
	reason TEXT NOT NULL, removed TEXT NOT NULL,
	PRIMARY KEY (location, object, job)
) WITHOUT ROWID;
CREATE INDEX version_jobs_job ON version_jobs (job);
CREATE INDEX version_jobs_open ON version_jobs (removing) WHERE removing <> '' AND removed = '';
INSERT INTO version_jobs SELECT DISTINCT location, object, job, '', '', '', '' FROM versions;
UPDATE version_jobs SET by = 'stagepost', reason = 'the archive was deleted, or its job failed, before',
	removing = (SELECT iif(ended <> '', ended, created) FROM archives AS a WHERE a.job = version_jobs.job)
	WHERE job IN (SELECT job FROM archives WHERE outcome = 'deleted')
		OR job IN (SELECT job FROM archives WHERE outcome = 'failed') AND job NOT IN (SELECT job FROM holds);
`

// schema3 adds the versions of OCFL objects, and the faults that fixity checks found in them.
const schema3 = `
CREATE TABLE versions (
	location TEXT NOT NULL, object TEXT NOT NULL, version TEXT NOT NULL, job TEXT NOT NULL, digest TEXT NOT NULL,
	stored TEXT NOT NULL, last_fixity TEXT NOT NULL, next_fixity TEXT NOT NULL, bytes INTEGER NOT NULL,
	faults INTEGER NOT NULL, healed INTEGER NOT NULL,
	PRIMARY KEY (location, object, version)
) WITHOUT ROWID;
CREATE INDEX versions_due ON versions (location, next_fixity);
CREATE INDEX versions_job ON versions (job);
CREATE INDEX versions_faulty ON versions (location) WHERE faults > 0;
CREATE TABLE version_faults (
	location TEXT NOT NULL, object TEXT NOT NULL, version TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL,
	algorithm TEXT NOT NULL, expected TEXT NOT NULL, found TEXT NOT NULL, detail TEXT NOT NULL, since TEXT NOT NULL,
	PRIMARY KEY (location, object, version, path)
) WITHOUT ROWID;
`

// schema2 adds which copies a storage location has under a legal hold of its own.
const schema2 = `
CREATE TABLE held (
	artifact INTEGER NOT NULL, location TEXT NOT NULL, generation INTEGER NOT NULL, since TEXT NOT NULL,
	PRIMARY KEY (artifact, location, generation)
) WITHOUT ROWID;
`

const schema1 = `
CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), installation TEXT NOT NULL, sequence INTEGER NOT NULL);
CREATE TABLE archives (
	job TEXT PRIMARY KEY, source TEXT NOT NULL, course TEXT NOT NULL, course_name TEXT NOT NULL, category TEXT NOT NULL,
	owner TEXT NOT NULL, origin TEXT NOT NULL, settings TEXT NOT NULL, outcome TEXT NOT NULL,
	created TEXT NOT NULL, ended TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX archives_course ON archives (source, course, created);
CREATE TABLE activities (
	job TEXT NOT NULL REFERENCES archives, activity TEXT NOT NULL, source TEXT NOT NULL, course TEXT NOT NULL,
	module TEXT NOT NULL, name TEXT NOT NULL, url TEXT NOT NULL, section TEXT NOT NULL, fingerprint TEXT NOT NULL,
	items INTEGER NOT NULL, bytes INTEGER NOT NULL, drift INTEGER NOT NULL, archived TEXT NOT NULL,
	PRIMARY KEY (job, activity)
) WITHOUT ROWID;
CREATE INDEX activities_activity ON activities (source, activity, archived);
CREATE INDEX activities_course ON activities (source, course, activity, archived);
CREATE TABLE failures (
	source TEXT NOT NULL, activity TEXT NOT NULL, fingerprint TEXT NOT NULL, job TEXT NOT NULL,
	at TEXT NOT NULL, cause TEXT NOT NULL,
	PRIMARY KEY (source, activity, fingerprint, job)
) WITHOUT ROWID;
CREATE TABLE artifacts (
	id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL REFERENCES archives, activity TEXT NOT NULL,
	path TEXT NOT NULL, key TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL, sha512 TEXT NOT NULL,
	mime TEXT NOT NULL, role TEXT NOT NULL, origin_sha1 TEXT NOT NULL, origin_url TEXT NOT NULL,
	origin_modified TEXT NOT NULL, created TEXT NOT NULL,
	UNIQUE (job, path)
);
CREATE INDEX artifacts_sha256 ON artifacts (sha256);
CREATE TABLE copies (
	artifact INTEGER NOT NULL REFERENCES artifacts, location TEXT NOT NULL, generation INTEGER NOT NULL,
	key TEXT NOT NULL, size INTEGER NOT NULL, progress TEXT NOT NULL, attempts INTEGER NOT NULL, error TEXT NOT NULL,
	planned TEXT NOT NULL, stored TEXT NOT NULL, verified TEXT NOT NULL,
	last_fixity TEXT NOT NULL, next_fixity TEXT NOT NULL, fixity TEXT NOT NULL, detail TEXT NOT NULL,
	retain TEXT NOT NULL, replaced INTEGER NOT NULL,
	deleted TEXT NOT NULL, deleted_by TEXT NOT NULL, reason TEXT NOT NULL,
	PRIMARY KEY (artifact, location, generation), UNIQUE (location, key)
) WITHOUT ROWID;
CREATE INDEX copies_due ON copies (location, next_fixity) WHERE verified <> '' AND deleted = '' AND replaced = 0;
CREATE INDEX copies_faults ON copies (fixity) WHERE fixity IN ('corrupt', 'missing') AND deleted = '' AND replaced = 0;
CREATE INDEX copies_behind ON copies (location, planned) WHERE verified = '' AND deleted = '' AND replaced = 0;
CREATE INDEX copies_replaced ON copies (location) WHERE replaced > 0 AND deleted = '';
CREATE INDEX copies_healed ON copies (artifact) WHERE replaced > 0;
CREATE TABLE checks (
	location TEXT PRIMARY KEY, began TEXT NOT NULL, ended TEXT NOT NULL, failure TEXT NOT NULL,
	copies INTEGER NOT NULL, bytes INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE locations (
	location TEXT PRIMARY KEY, id TEXT NOT NULL, since TEXT NOT NULL, marked TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE tokens (
	subject TEXT NOT NULL, generation INTEGER NOT NULL, job TEXT NOT NULL, path TEXT NOT NULL, algorithm TEXT NOT NULL,
	imprint TEXT NOT NULL, query BLOB NOT NULL, reply BLOB NOT NULL, chain TEXT NOT NULL, authority TEXT NOT NULL,
	url TEXT NOT NULL, gen_time TEXT NOT NULL, serial TEXT NOT NULL, policy TEXT NOT NULL, expires TEXT NOT NULL,
	verified TEXT NOT NULL,
	PRIMARY KEY (subject, generation)
) WITHOUT ROWID;
CREATE INDEX tokens_job ON tokens (job);
CREATE TABLE current_tokens (
	subject TEXT PRIMARY KEY, generation INTEGER NOT NULL, expires TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX current_tokens_expires ON current_tokens (expires);
CREATE TABLE people (
	source TEXT NOT NULL, person TEXT NOT NULL, username TEXT NOT NULL COLLATE NOCASE,
	number TEXT NOT NULL COLLATE NOCASE, name TEXT NOT NULL, folded TEXT NOT NULL,
	email TEXT NOT NULL COLLATE NOCASE,
	PRIMARY KEY (source, person)
) WITHOUT ROWID;
CREATE INDEX people_username ON people (username);
CREATE INDEX people_number ON people (number);
CREATE INDEX people_email ON people (email);
CREATE TABLE contents (
	job TEXT NOT NULL REFERENCES archives, activity TEXT NOT NULL, source TEXT NOT NULL, person TEXT NOT NULL,
	item TEXT NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL, title TEXT NOT NULL,
	PRIMARY KEY (job, activity, person, item, path)
) WITHOUT ROWID;
CREATE INDEX contents_person ON contents (source, person, job);
CREATE TABLE holds (
	job TEXT NOT NULL, name TEXT NOT NULL, by TEXT NOT NULL, reason TEXT NOT NULL, since TEXT NOT NULL,
	released TEXT NOT NULL, released_by TEXT NOT NULL,
	PRIMARY KEY (job, name)
) WITHOUT ROWID;
CREATE TABLE deletions (
	id TEXT PRIMARY KEY, job TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
	requested_by TEXT NOT NULL, requested TEXT NOT NULL, decided_by TEXT NOT NULL, decided TEXT NOT NULL,
	ended TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX deletions_job ON deletions (job);
CREATE INDEX deletions_state ON deletions (state, requested);
CREATE TABLE tombstones (
	job TEXT PRIMARY KEY, deletion TEXT NOT NULL, by TEXT NOT NULL, approved_by TEXT NOT NULL, reason TEXT NOT NULL,
	artifacts INTEGER NOT NULL, copies INTEGER NOT NULL, bytes INTEGER NOT NULL, digest TEXT NOT NULL, at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE erasures (
	id TEXT PRIMARY KEY, by TEXT NOT NULL, reason TEXT NOT NULL, contents INTEGER NOT NULL, archives TEXT NOT NULL,
	at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE events (
	id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, job TEXT NOT NULL, path TEXT NOT NULL,
	type TEXT NOT NULL, outcome TEXT NOT NULL, agent TEXT NOT NULL, detail TEXT NOT NULL, at TEXT NOT NULL
);
CREATE INDEX events_job ON events (job, path, id);
`
