-- Entries of histories and of the audit log have the address of the sender, '' for what no request caused.
ALTER TABLE event ADD COLUMN address text NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN address text NOT NULL DEFAULT '';

DROP VIEW history;
CREATE VIEW history AS SELECT
  m.id AS job, e.seq, e.event, e.from_state AS "from", e.to_state AS "to", e.outcome, actor_name(e.actor) AS "by",
  nullif(e.who, '') AS actor, nullif(e.address, '') AS address, nullif(e.cause, '') AS cause,
  nullif(e.note, '') AS note, e.epoch, moment(e.at) AS at
FROM event e JOIN job_made m ON m.n = e.job;

DROP VIEW audit_list;
CREATE VIEW audit_list AS SELECT
  a AS number, moment(at) AS at, actor_name(actor) AS "by", who, nullif(address, '') AS address, event,
  nullif(job, '') AS job, nullif(kind, '') AS kind, nullif(from_state, '') AS "from", nullif(to_state, '') AS "to",
  nullif(object, '') AS object, nullif(note, '') AS note, seen, encode(hash, 'hex') AS hash
FROM audit ORDER BY a;
