-- Entries of histories and of the audit log have the address of the sender, NULL for what no request caused.
ALTER TABLE event ADD COLUMN address ANY; -- a word
ALTER TABLE audit ADD COLUMN address TEXT;

DROP VIEW history;
CREATE VIEW history AS SELECT
  m.id AS job, e.seq, v.event, v.from_state AS "from", v.to_state AS "to", v.outcome,
  CASE v.actor WHEN 1 THEN 'worker' WHEN 2 THEN 'timer' WHEN 4 THEN 'operator' WHEN 8 THEN 'owner' WHEN 16 THEN 'engine' END AS "by",
  CASE typeof(e.actor) WHEN 'integer' THEN (SELECT text FROM word WHERE w = e.actor) ELSE e.actor END AS actor,
  CASE typeof(e.address) WHEN 'integer' THEN (SELECT text FROM word WHERE w = e.address) ELSE e.address END AS address,
  CASE typeof(e.cause) WHEN 'integer' THEN (SELECT text FROM word WHERE w = e.cause) ELSE e.cause END AS cause,
  e.note, e.epoch, strftime('%Y-%m-%dT%H:%M:%fZ', (m.created + e.at) / 1e6, 'unixepoch') AS at
FROM event e JOIN job_made m ON m.n = e.job JOIN move v ON v.m = e.move;

DROP VIEW audit_list;
CREATE VIEW audit_list AS SELECT
  a AS number, strftime('%Y-%m-%dT%H:%M:%fZ', at / 1e6, 'unixepoch') AS at,
  CASE actor WHEN 1 THEN 'worker' WHEN 2 THEN 'timer' WHEN 4 THEN 'operator' WHEN 8 THEN 'owner' WHEN 16 THEN 'engine' END AS "by",
  who, address, event, job, kind, from_state AS "from", to_state AS "to", object, note, seen, lower(hex(hash)) AS hash
FROM audit ORDER BY a;
