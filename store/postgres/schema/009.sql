-- Holds have no version. The column stays for servers of an earlier program that still write.
ALTER TABLE hold ALTER COLUMN version SET DEFAULT 0;
DROP VIEW holds;
CREATE VIEW holds AS SELECT
  coalesce(nullif(concat_ws(' ', 'group=' || nullif(grp, ''), 'job=' || nullif(job, ''), 'kind=' || nullif(kind, ''),
    'owner=' || nullif(owner, ''), 'state=' || nullif(state, ''), nullif(tag, '')), ''), 'everything') AS scope,
  kind, state, grp AS "group", owner, tag, job, who, why, moment(since) AS since, moment(until) AS until
FROM hold;
