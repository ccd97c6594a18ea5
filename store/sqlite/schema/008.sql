-- Jobs may require labels of their workers.
ALTER TABLE job_made ADD COLUMN requires ANY; -- JSON: an array of texts; a word like the others

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
  j.children ->> 0 AS expected, j.children ->> 1 AS open_children, j.seq, lower(hex(j.head)) AS head,
  CASE typeof(m.requires) WHEN 'integer' THEN (SELECT text FROM word WHERE w = m.requires) ELSE m.requires END AS requires
FROM job_made m JOIN job_now j USING (n) JOIN word k ON k.w = m.kind JOIN word s ON s.w = j.state
LEFT JOIN word l ON l.w = j.last_ok LEFT JOIN word o ON o.w = j.origin LEFT JOIN word u ON u.w = j.outcome
LEFT JOIN job_made p ON p.n = m.parent LEFT JOIN job_data d ON d.n = m.n;
