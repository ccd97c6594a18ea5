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

-- Entries of histories have the time at which the work began that they end, 0 if it is not known.
ALTER TABLE event ADD COLUMN began bigint NOT NULL DEFAULT 0;

DROP VIEW history;
CREATE VIEW history AS SELECT
  m.id AS job, e.seq, e.event, e.from_state AS "from", e.to_state AS "to", e.outcome, actor_name(e.actor) AS "by",
  nullif(e.who, '') AS actor, nullif(e.address, '') AS address, nullif(e.cause, '') AS cause,
  nullif(e.note, '') AS note, e.epoch, moment(e.at) AS at, moment(e.began) AS began
FROM event e JOIN job_made m ON m.n = e.job;
