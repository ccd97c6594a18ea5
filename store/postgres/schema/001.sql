-- What users read are the views at the end. Times are microseconds since 1970, 0 for none. Rows are in the order of creation (n).
-- Texts that PostgreSQL does not accept have escapes; see text.go.

-- What never changes about a job.
CREATE TABLE job_made (
  n bigint PRIMARY KEY, id text COLLATE "C" NOT NULL UNIQUE, kind text NOT NULL, number bigint NOT NULL,
  parent text NOT NULL, owner text NOT NULL, definition text NOT NULL, created bigint NOT NULL, key text NOT NULL,
  spec bytea,
  crowd text NOT NULL, -- the parent if it expected many jobs when this one was created
  UNIQUE (kind, number)
);
CREATE UNIQUE INDEX job_key ON job_made (key, kind, owner) WHERE key <> '';
CREATE INDEX job_owner ON job_made (owner, n) WHERE owner <> '';
CREATE INDEX job_parent ON job_made (parent, n) WHERE parent <> '';

-- What changes with commits.
CREATE TABLE job_now (
  n bigint PRIMARY KEY, kind text NOT NULL, state text NOT NULL, last_ok text NOT NULL, origin text NOT NULL,
  outcome text NOT NULL, ended smallint NOT NULL, -- 1: an end, 2: and a tombstone
  priority integer NOT NULL, grp text NOT NULL, tags text NOT NULL, -- JSON, an array of texts
  bytes bigint NOT NULL, version bigint NOT NULL, epoch bigint NOT NULL, worker text COLLATE "C" NOT NULL,
  until bigint NOT NULL, starts integer NOT NULL, attempts integer NOT NULL, retries integer NOT NULL,
  due bigint NOT NULL, deadline bigint NOT NULL, expires bigint NOT NULL, entered bigint NOT NULL,
  changed bigint NOT NULL, message text NOT NULL, cause text NOT NULL,
  children text NOT NULL, -- JSON: expected, open, ok, failed, timed out, cancelled, deleted
  seq bigint NOT NULL, head bytea NOT NULL, -- number of history entries, and the hash of the last one
  data bytea,
  lane uuid, -- NULL for an ended job
  waits smallint NOT NULL -- 0: it has ended or is claimed; 1: it can be claimed; 2: it can be claimed when it is due
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX job_state ON job_now (kind, state, n);
CREATE INDEX job_group ON job_now (grp, n) WHERE grp <> '';
CREATE INDEX job_cause ON job_now (cause, n) WHERE cause <> '';
-- The indexes of the queue have no ended jobs.
CREATE INDEX job_live ON job_now (n) WHERE ended = 0;
CREATE INDEX job_first ON job_now (lane, priority, n) WHERE waits = 1;
CREATE INDEX job_eldest ON job_now (lane, entered, n) WHERE waits = 1;
CREATE INDEX job_due ON job_now (due) WHERE waits = 2;
CREATE INDEX job_claimed ON job_now (kind, lane) WHERE worker <> '';
CREATE INDEX job_worker ON job_now (worker) WHERE worker <> '';
CREATE INDEX job_until ON job_now (until) WHERE worker <> '';
CREATE INDEX job_expires ON job_now (expires) WHERE expires <> 0 AND ended = 0;
CREATE INDEX job_occupies ON job_now (kind, state, lane) WHERE ended = 0;

CREATE TABLE job_tag (tag text NOT NULL, n bigint NOT NULL, PRIMARY KEY (tag, n));

-- History. Entries are only ever appended. hash is over the entry and the hash before it.
CREATE TABLE event (
  job bigint NOT NULL, seq bigint NOT NULL, event text NOT NULL, from_state text NOT NULL, to_state text NOT NULL,
  outcome text NOT NULL, actor smallint NOT NULL, -- lifecycle.Actor
  who text NOT NULL, cause text NOT NULL, note text NOT NULL, epoch bigint NOT NULL, at bigint NOT NULL,
  hash bytea NOT NULL, PRIMARY KEY (job, seq)
);

CREATE TABLE task (
  job bigint NOT NULL, name text COLLATE "C" NOT NULL, kind text NOT NULL, state text NOT NULL, epoch bigint NOT NULL,
  attempts integer NOT NULL, done bigint NOT NULL, total bigint NOT NULL, message text NOT NULL, data bytea,
  changed bigint NOT NULL, PRIMARY KEY (job, name)
) WITH (fillfactor = 70);

CREATE TABLE hold (
  kind text NOT NULL, state text NOT NULL, grp text NOT NULL, owner text NOT NULL, tag text NOT NULL,
  job text NOT NULL, who text NOT NULL, why text NOT NULL, since bigint NOT NULL, until bigint NOT NULL,
  version bigint NOT NULL,
  PRIMARY KEY (kind, state, grp, owner, tag, job)
);

CREATE TABLE message (
  m bigint PRIMARY KEY, key text NOT NULL UNIQUE, job text NOT NULL, topic text NOT NULL, body bytea,
  created bigint NOT NULL, due bigint NOT NULL, attempts integer NOT NULL, error text NOT NULL,
  settled text NOT NULL, tried text NOT NULL -- JSON
) WITH (fillfactor = 70);
CREATE INDEX message_job ON message (job, m);
CREATE INDEX message_pending ON message (due, m) WHERE settled = '';
CREATE INDEX message_settled ON message (settled, m) WHERE settled <> 'delivered';

CREATE TABLE audit (
  a bigint PRIMARY KEY, at bigint NOT NULL, actor smallint NOT NULL, who text NOT NULL, event text NOT NULL,
  job text NOT NULL, kind text NOT NULL, from_state text NOT NULL, to_state text NOT NULL, object text NOT NULL,
  note text NOT NULL, seen bigint NOT NULL, hash bytea NOT NULL
);

-- The highest numbers that were given: of rows ('row'), messages ('message'), entries of the audit log ('audit', with
-- the hash of the last one), changes of holds ('hold') and of each kind ('number of ' and the kind).
CREATE TABLE given (what text PRIMARY KEY, n bigint NOT NULL, hash bytea NOT NULL) WITH (fillfactor = 50);

-- Counts of jobs. Each server adds to the rows of its slot; the sum counts.
CREATE TABLE tally (
  kind text NOT NULL, state text NOT NULL, grp text NOT NULL, slot smallint NOT NULL, jobs bigint NOT NULL,
  claimed bigint NOT NULL, bytes bigint NOT NULL, PRIMARY KEY (kind, state, grp, slot)
) WITH (fillfactor = 50);

-- A lane has the jobs with the same properties. The two keys are lower bounds of its first job by order of claims and
-- of its eldest one; see doc.go.
CREATE TABLE lane (
  id uuid PRIMARY KEY, kind text NOT NULL, state text NOT NULL, grp text NOT NULL, owner text NOT NULL,
  tags text NOT NULL, crowd text NOT NULL, suspect boolean NOT NULL,
  waiting boolean NOT NULL, -- some job can be claimed
  held boolean NOT NULL DEFAULT false, -- by a hold without an end: no claim reads the lane until a hold changes
  priority bigint NOT NULL, turn bigint NOT NULL, first bigint NOT NULL, entered bigint NOT NULL, eldest bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX lane_first ON lane (kind, state, suspect, priority, turn, first, id) WHERE waiting AND NOT held;
CREATE INDEX lane_eldest ON lane (kind, state, suspect, entered, eldest, id) WHERE waiting AND NOT held;
CREATE INDEX lane_held ON lane (id) WHERE held;

-- When an owner was last granted a job, for claims in turn.
CREATE TABLE turn (owner text PRIMARY KEY, at bigint NOT NULL) WITH (fillfactor = 50);

-- The last transaction of each server that writes. Its number tells whether a commit whose answer was lost was made.
CREATE TABLE writer (id uuid PRIMARY KEY, seq bigint NOT NULL, seen bigint NOT NULL) WITH (fillfactor = 50);

CREATE TABLE clock (
  one integer PRIMARY KEY CHECK (one = 1), trusted bigint NOT NULL, latest bigint NOT NULL, confirmed bigint NOT NULL
);

-- The views.
CREATE FUNCTION moment(micro bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE
  AS $$ SELECT CASE WHEN micro <> 0 THEN timestamptz 'epoch' + micro * interval '1 microsecond' END $$;
CREATE FUNCTION actor_name(actor smallint) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE actor WHEN 1 THEN 'worker' WHEN 2 THEN 'timer' WHEN 4 THEN 'operator' WHEN 8 THEN 'owner' WHEN 16 THEN 'engine' END $$;

CREATE VIEW jobs AS SELECT
  m.id, m.number, m.kind, j.state, nullif(j.last_ok, '') AS last_ok, nullif(j.origin, '') AS origin,
  nullif(j.outcome, '') AS outcome, j.ended > 0 AS ended, j.ended = 2 AS gone, j.priority,
  nullif(m.parent, '') AS parent, j.grp AS "group", m.owner, nullif(j.tags, '') AS tags, j.bytes,
  nullif(m.key, '') AS key, j.version, j.epoch, nullif(j.worker, '') AS worker, moment(j.until) AS until, j.starts,
  j.attempts, j.retries, moment(j.due) AS due, moment(j.deadline) AS deadline, moment(j.expires) AS expires,
  moment(j.entered) AS entered, moment(m.created) AS created, moment(j.changed) AS changed, m.definition,
  convert_from(m.spec, 'UTF8') AS spec, convert_from(j.data, 'UTF8') AS data, nullif(j.message, '') AS message,
  nullif(j.cause, '') AS cause, (nullif(j.children, '')::json ->> 0)::bigint AS expected,
  (nullif(j.children, '')::json ->> 1)::bigint AS open_children, j.seq, encode(j.head, 'hex') AS head
FROM job_made m JOIN job_now j USING (n);

CREATE VIEW history AS SELECT
  m.id AS job, e.seq, e.event, e.from_state AS "from", e.to_state AS "to", e.outcome, actor_name(e.actor) AS "by",
  nullif(e.who, '') AS actor, nullif(e.cause, '') AS cause, nullif(e.note, '') AS note, e.epoch, moment(e.at) AS at
FROM event e JOIN job_made m ON m.n = e.job;

CREATE VIEW tasks AS SELECT
  m.id AS job, t.name, t.kind, t.state, t.epoch, t.attempts, t.done, t.total, nullif(t.message, '') AS message,
  convert_from(t.data, 'UTF8') AS data, moment(t.changed) AS changed
FROM task t JOIN job_made m ON m.n = t.job;

CREATE VIEW holds AS SELECT
  coalesce(nullif(concat_ws(' ', 'group=' || nullif(grp, ''), 'job=' || nullif(job, ''), 'kind=' || nullif(kind, ''),
    'owner=' || nullif(owner, ''), 'state=' || nullif(state, ''), nullif(tag, '')), ''), 'everything') AS scope,
  kind, state, grp AS "group", owner, tag, job, who, why, moment(since) AS since, moment(until) AS until, version
FROM hold;

CREATE VIEW outbox AS SELECT
  m AS number, key, job, topic, convert_from(body, 'UTF8') AS body, moment(created) AS created, moment(due) AS due,
  attempts, nullif(error, '') AS error, coalesce(nullif(settled, ''), 'pending') AS settled,
  nullif(tried, '') AS tried
FROM message ORDER BY m;

CREATE VIEW audit_list AS SELECT
  a AS number, moment(at) AS at, actor_name(actor) AS "by", who, event, nullif(job, '') AS job,
  nullif(kind, '') AS kind, nullif(from_state, '') AS "from", nullif(to_state, '') AS "to",
  nullif(object, '') AS object, nullif(note, '') AS note, seen, encode(hash, 'hex') AS hash
FROM audit ORDER BY a;
