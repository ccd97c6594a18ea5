-- What users read are the views at the end. The tables are compact: words stand once in `word`, moves once in `move`, jobs are
-- known by row number, times are microseconds (of the record: since its creation). A word column holds the number of a word, or
-- the text itself where it was too long or there were too many.

CREATE TABLE word (w INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
CREATE TABLE move (
  m INTEGER PRIMARY KEY, event TEXT NOT NULL, from_state TEXT NOT NULL, to_state TEXT NOT NULL, outcome TEXT NOT NULL,
  actor INTEGER NOT NULL -- lifecycle.Actor
) STRICT;

-- What never changes about a job. n counts jobs in order of creation.
CREATE TABLE job_made (
  n INTEGER PRIMARY KEY, id TEXT NOT NULL, kind INTEGER NOT NULL, number INTEGER NOT NULL, parent INTEGER, owner ANY,
  definition ANY, created INTEGER NOT NULL, key TEXT, spec TEXT
) STRICT;
CREATE UNIQUE INDEX job_id ON job_made (id);

-- What changes with every commit.
CREATE TABLE job_now (
  n INTEGER PRIMARY KEY, state INTEGER NOT NULL, last_ok INTEGER, origin INTEGER, outcome INTEGER,
  ended INTEGER NOT NULL, -- 1: an end, 2: and a tombstone
  priority INTEGER NOT NULL, grp ANY, version INTEGER NOT NULL, epoch INTEGER NOT NULL, worker ANY, until INTEGER,
  starts INTEGER NOT NULL, attempts INTEGER NOT NULL, retries INTEGER NOT NULL,
  due INTEGER, deadline INTEGER, expires INTEGER, entered INTEGER, changed INTEGER,
  message TEXT, cause ANY,
  children TEXT, -- JSON: expected, open, ok, failed, timed out, cancelled, deleted
  seq INTEGER NOT NULL, last INTEGER NOT NULL, -- number of history entries, and the last one
  head BLOB NOT NULL -- its hash
) STRICT;

CREATE TABLE job_data (n INTEGER PRIMARY KEY, data TEXT NOT NULL) STRICT;
CREATE TABLE job_key (
  key TEXT NOT NULL, kind INTEGER NOT NULL, owner TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (key, kind, owner)
) STRICT, WITHOUT ROWID;

-- History. Entries are only ever appended, those of all jobs one after another; back is how far the job's entry before this
-- one lies behind, so that no index is needed. Hashes are not kept: the record has the last one, the others follow.
CREATE TABLE event (
  e INTEGER PRIMARY KEY, job INTEGER NOT NULL, back INTEGER, seq INTEGER NOT NULL, move INTEGER NOT NULL,
  at INTEGER NOT NULL, epoch INTEGER NOT NULL, actor ANY, cause ANY, note TEXT
) STRICT;

CREATE TABLE task (
  job INTEGER NOT NULL, name TEXT NOT NULL, kind INTEGER, state INTEGER, epoch INTEGER NOT NULL, attempts INTEGER NOT NULL,
  done INTEGER NOT NULL, total INTEGER NOT NULL, message TEXT, data TEXT, changed INTEGER, PRIMARY KEY (job, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE hold (
  scope TEXT PRIMARY KEY, kind TEXT NOT NULL, state TEXT NOT NULL, grp TEXT NOT NULL, owner TEXT NOT NULL, job TEXT NOT NULL,
  who TEXT NOT NULL, why TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER, version INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE message (
  m INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, job TEXT NOT NULL, topic TEXT NOT NULL, body TEXT,
  created INTEGER, due INTEGER, attempts INTEGER NOT NULL, error TEXT, settled TEXT
) STRICT;
CREATE INDEX message_job ON message (job);
CREATE INDEX message_pending ON message (due) WHERE settled IS NULL;

CREATE TABLE room (r INTEGER PRIMARY KEY, filler BLOB NOT NULL) STRICT; -- written and deleted to see whether the disk is full

-- The views.
CREATE VIEW jobs AS SELECT
  m.id, m.number, k.text AS kind, s.text AS state, l.text AS last_ok, o.text AS origin, u.text AS outcome,
  j.ended > 0 AS ended, j.ended = 2 AS gone, j.priority, p.id AS parent,
  CASE typeof(j.grp) WHEN 'integer' THEN (SELECT text FROM word WHERE w = j.grp) ELSE j.grp END AS "group",
  CASE typeof(m.owner) WHEN 'integer' THEN (SELECT text FROM word WHERE w = m.owner) ELSE m.owner END AS owner,
  m.key, j.version, j.epoch,
  CASE typeof(j.worker) WHEN 'integer' THEN (SELECT text FROM word WHERE w = j.worker) ELSE j.worker END AS worker,
  strftime('%Y-%m-%dT%H:%M:%fZ', (m.created + j.until) / 1e6, 'unixepoch') AS until,
  j.starts, j.attempts, j.retries,
  strftime('%Y-%m-%dT%H:%M:%fZ', (m.created + j.due) / 1e6, 'unixepoch') AS due,
  strftime('%Y-%m-%dT%H:%M:%fZ', (m.created + j.deadline) / 1e6, 'unixepoch') AS deadline,
  strftime('%Y-%m-%dT%H:%M:%fZ', (m.created + j.expires) / 1e6, 'unixepoch') AS expires,
  strftime('%Y-%m-%dT%H:%M:%fZ', (m.created + j.entered) / 1e6, 'unixepoch') AS entered,
  strftime('%Y-%m-%dT%H:%M:%fZ', m.created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', (m.created + j.changed) / 1e6, 'unixepoch') AS changed,
  CASE typeof(m.definition) WHEN 'integer' THEN (SELECT text FROM word WHERE w = m.definition) ELSE m.definition END AS definition,
  m.spec, d.data, j.message,
  CASE typeof(j.cause) WHEN 'integer' THEN (SELECT text FROM word WHERE w = j.cause) ELSE j.cause END AS cause,
  j.children ->> 0 AS expected, j.children ->> 1 AS open_children, j.seq, lower(hex(j.head)) AS head
FROM job_made m JOIN job_now j USING (n) JOIN word k ON k.w = m.kind JOIN word s ON s.w = j.state
LEFT JOIN word l ON l.w = j.last_ok LEFT JOIN word o ON o.w = j.origin LEFT JOIN word u ON u.w = j.outcome
LEFT JOIN job_made p ON p.n = m.parent LEFT JOIN job_data d ON d.n = m.n;

CREATE VIEW history AS SELECT
  m.id AS job, e.seq, v.event, v.from_state AS "from", v.to_state AS "to", v.outcome,
  CASE v.actor WHEN 1 THEN 'worker' WHEN 2 THEN 'timer' WHEN 4 THEN 'operator' WHEN 8 THEN 'owner' WHEN 16 THEN 'engine' END AS "by",
  CASE typeof(e.actor) WHEN 'integer' THEN (SELECT text FROM word WHERE w = e.actor) ELSE e.actor END AS actor,
  CASE typeof(e.cause) WHEN 'integer' THEN (SELECT text FROM word WHERE w = e.cause) ELSE e.cause END AS cause,
  e.note, e.epoch, strftime('%Y-%m-%dT%H:%M:%fZ', (m.created + e.at) / 1e6, 'unixepoch') AS at
FROM event e JOIN job_made m ON m.n = e.job JOIN move v ON v.m = e.move;

CREATE VIEW tasks AS SELECT
  m.id AS job, t.name, k.text AS kind, s.text AS state, t.epoch, t.attempts, t.done, t.total, t.message, t.data,
  strftime('%Y-%m-%dT%H:%M:%fZ', t.changed / 1e6, 'unixepoch') AS changed
FROM task t JOIN job_made m ON m.n = t.job LEFT JOIN word k ON k.w = t.kind LEFT JOIN word s ON s.w = t.state;

CREATE VIEW holds AS SELECT
  scope, kind, state, grp AS "group", owner, job, who, why, strftime('%Y-%m-%dT%H:%M:%fZ', since / 1e6, 'unixepoch') AS since,
  strftime('%Y-%m-%dT%H:%M:%fZ', until / 1e6, 'unixepoch') AS until, version
FROM hold;

CREATE VIEW outbox AS SELECT
  key, job, topic, body, strftime('%Y-%m-%dT%H:%M:%fZ', created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', due / 1e6, 'unixepoch') AS due, attempts, error, coalesce(settled, 'pending') AS settled
FROM message ORDER BY m;
