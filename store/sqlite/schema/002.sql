-- Jobs have tags and bytes, holds may name a tag, messages remember their deliveries, and what people do is entered in a list of its own.

ALTER TABLE job_now ADD COLUMN tags ANY; -- JSON: an array of texts; a word like the others
ALTER TABLE job_now ADD COLUMN bytes INTEGER;
ALTER TABLE hold ADD COLUMN tag TEXT NOT NULL DEFAULT '';
ALTER TABLE message ADD COLUMN tried TEXT; -- JSON
CREATE INDEX message_given_up ON message (settled) WHERE settled = 'given-up';

-- The audit list. Entries are only ever added and outlive the jobs they tell of; hash is over the entry and the hash before it.
CREATE TABLE audit (
  a INTEGER PRIMARY KEY, at INTEGER NOT NULL, actor INTEGER NOT NULL, -- lifecycle.Actor
  who TEXT NOT NULL, event TEXT NOT NULL, job TEXT, kind TEXT, from_state TEXT, to_state TEXT, object TEXT, note TEXT,
  seen INTEGER, hash BLOB NOT NULL
) STRICT;

-- The highest numbers that were given, of rows, history entries, messages and of each kind's jobs ('number of ' and the kind), as far as
-- what had them may have been purged. No number is given twice.
CREATE TABLE given (what TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT, WITHOUT ROWID;

DROP VIEW jobs;
CREATE VIEW jobs AS SELECT
  m.id, m.number, k.text AS kind, s.text AS state, l.text AS last_ok, o.text AS origin, u.text AS outcome,
  j.ended > 0 AS ended, j.ended = 2 AS gone, j.priority, p.id AS parent,
  CASE typeof(j.grp) WHEN 'integer' THEN (SELECT text FROM word WHERE w = j.grp) ELSE j.grp END AS "group",
  CASE typeof(m.owner) WHEN 'integer' THEN (SELECT text FROM word WHERE w = m.owner) ELSE m.owner END AS owner,
  CASE typeof(j.tags) WHEN 'integer' THEN (SELECT text FROM word WHERE w = j.tags) ELSE j.tags END AS tags, j.bytes,
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

DROP VIEW holds;
CREATE VIEW holds AS SELECT
  scope, kind, state, grp AS "group", owner, tag, job, who, why,
  strftime('%Y-%m-%dT%H:%M:%fZ', since / 1e6, 'unixepoch') AS since,
  strftime('%Y-%m-%dT%H:%M:%fZ', until / 1e6, 'unixepoch') AS until, version
FROM hold;

DROP VIEW outbox;
CREATE VIEW outbox AS SELECT
  m AS number, key, job, topic, body, strftime('%Y-%m-%dT%H:%M:%fZ', created / 1e6, 'unixepoch') AS created,
  strftime('%Y-%m-%dT%H:%M:%fZ', due / 1e6, 'unixepoch') AS due, attempts, error, coalesce(settled, 'pending') AS settled, tried
FROM message ORDER BY m;

CREATE VIEW audit_list AS SELECT
  a AS number, strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') AS at,
  CASE actor WHEN 1 THEN 'worker' WHEN 2 THEN 'timer' WHEN 4 THEN 'operator' WHEN 8 THEN 'owner' WHEN 16 THEN 'engine' END AS "by",
  who, event, job, kind, from_state AS "from", to_state AS "to", object, note, seen, lower(hex(hash)) AS hash
FROM audit ORDER BY a;
