-- Holds have no version. The checksums of those that exist are over it.
DROP VIEW holds;
ALTER TABLE hold DROP COLUMN version;
UPDATE hold SET sum = NULL;
CREATE VIEW holds AS SELECT
  scope, kind, state, grp AS "group", owner, tag, job, who, why,
  strftime('%Y-%m-%dT%H:%M:%fZ', since / 1e6, 'unixepoch') AS since,
  strftime('%Y-%m-%dT%H:%M:%fZ', until / 1e6, 'unixepoch') AS until
FROM hold;
