-- Holds have no version. The checksums of those that exist are over it.
DROP VIEW holds;
ALTER TABLE hold DROP COLUMN version;
UPDATE hold SET sum = NULL;
CREATE VIEW holds AS SELECT
  scope, kind, state, grp AS "group", owner, tag, job, who, why,
  strftime('%Y-%m-%dT%H:%M:%fZ', since / 1e6, 'unixepoch') AS since,
  strftime('%Y-%m-%dT%H:%M:%fZ', until / 1e6, 'unixepoch') AS until
FROM hold;

-- Entries of histories have the time at which the work began that they end, in microseconds before the entry; NULL if it is
-- not known.
ALTER TABLE event ADD COLUMN worked INTEGER;

DROP VIEW history;
CREATE VIEW history AS SELECT
  m.id AS job, e.seq, v.event, v.from_state AS "from", v.to_state AS "to", v.outcome,
  CASE v.actor WHEN 1 THEN 'worker' WHEN 2 THEN 'timer' WHEN 4 THEN 'operator' WHEN 8 THEN 'owner' WHEN 16 THEN 'engine' END AS "by",
  CASE typeof(e.actor) WHEN 'integer' THEN (SELECT text FROM word WHERE w = e.actor) ELSE e.actor END AS actor,
  CASE typeof(e.address) WHEN 'integer' THEN (SELECT text FROM word WHERE w = e.address) ELSE e.address END AS address,
  CASE typeof(e.cause) WHEN 'integer' THEN (SELECT text FROM word WHERE w = e.cause) ELSE e.cause END AS cause,
  e.note, e.epoch, strftime('%Y-%m-%dT%H:%M:%fZ', (m.created + e.at) / 1e6, 'unixepoch') AS at,
  strftime('%Y-%m-%dT%H:%M:%fZ', (m.created + e.at - e.worked) / 1e6, 'unixepoch') AS began
FROM event e JOIN job_made m ON m.n = e.job JOIN move v ON v.m = e.move;
