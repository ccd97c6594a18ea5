-- 0 is no time, and the lowest number is 1970-01-01T00:00:00Z.
CREATE OR REPLACE FUNCTION moment(micro bigint) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE micro WHEN 0 THEN NULL WHEN '-9223372036854775808'::bigint THEN timestamptz 'epoch'
    ELSE timestamptz 'epoch' + micro * interval '1 microsecond' END $$;

-- Holds have no version. The column stays for servers of an earlier program that still write.
ALTER TABLE hold ALTER COLUMN version SET DEFAULT 0;
DROP VIEW holds;
CREATE VIEW holds AS SELECT
  coalesce(nullif(concat_ws(' ', 'group=' || nullif(grp, ''), 'job=' || nullif(job, ''), 'kind=' || nullif(kind, ''),
    'owner=' || nullif(owner, ''), 'state=' || nullif(state, ''), nullif(tag, '')), ''), 'everything') AS scope,
  kind, state, grp AS "group", owner, tag, job, who, why, moment(since) AS since, moment(until) AS until
FROM hold;
