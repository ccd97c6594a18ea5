-- Jobs may require labels of their workers: in order, each with a line end. A lane has jobs that require the same ones.
ALTER TABLE job_made ADD COLUMN requires text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE lane ADD COLUMN requires text COLLATE "C" NOT NULL DEFAULT '';
DROP INDEX lane_first, lane_eldest;
CREATE INDEX lane_first ON lane (kind, state, requires, suspect, priority, turn, first, id) WHERE waiting AND NOT held;
CREATE INDEX lane_eldest ON lane (kind, state, requires, suspect, entered, eldest, id) WHERE waiting AND NOT held;

CREATE OR REPLACE VIEW jobs AS SELECT
  m.id, m.number, m.kind, j.state, nullif(j.last_ok, '') AS last_ok, nullif(j.origin, '') AS origin,
  nullif(j.outcome, '') AS outcome, j.ended > 0 AS ended, j.ended = 2 AS gone, j.priority,
  nullif(m.parent, '') AS parent, j.grp AS "group", m.owner, nullif(j.tags, '') AS tags, j.bytes,
  nullif(m.key, '') AS key, j.version, j.epoch, nullif(j.worker, '') AS worker, moment(j.until) AS until, j.starts,
  j.attempts, j.retries, moment(j.due) AS due, moment(j.deadline) AS deadline, moment(j.expires) AS expires,
  moment(j.entered) AS entered, moment(m.created) AS created, moment(j.changed) AS changed, m.definition,
  convert_from(m.spec, 'UTF8') AS spec, convert_from(j.data, 'UTF8') AS data, nullif(j.message, '') AS message,
  nullif(j.cause, '') AS cause, (nullif(j.children, '')::json ->> 0)::bigint AS expected,
  (nullif(j.children, '')::json ->> 1)::bigint AS open_children, j.seq, encode(j.head, 'hex') AS head,
  to_json(string_to_array(rtrim(nullif(m.requires, ''), E'\n'), E'\n'))::text AS requires
FROM job_made m JOIN job_now j USING (n);
