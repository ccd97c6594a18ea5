-- The rows that a transaction writes are arrays of these types, which have the columns in the order of the program; was
-- is the version of a row that is updated.
CREATE TYPE made_row AS (
  n bigint, id text, kind text, number bigint, parent text, owner text, definition text, created bigint,
  key text, spec bytea, crowd text, requires text, words text
);
CREATE TYPE now_row AS (
  n bigint, kind text, state text, last_ok text, origin text, outcome text, ended bigint, priority bigint,
  grp text, tags text, bytes bigint, version bigint, epoch bigint, worker text, until bigint, starts bigint,
  attempts bigint, retries bigint, due bigint, deadline bigint, expires bigint, entered bigint,
  changed bigint, message text, cause text, children text, seq bigint, head bytea, data bytea, lane uuid,
  waits bigint, was bigint
);
CREATE TYPE transition_row AS (
  n bigint, state text, last_ok text, origin text, outcome text, ended bigint, version bigint, epoch bigint,
  worker text, until bigint, starts bigint, attempts bigint, due bigint, entered bigint, changed bigint,
  seq bigint, head bytea, lane uuid, waits bigint, was bigint
);
CREATE TYPE event_row AS (
  job bigint, seq bigint, event text, from_state text, to_state text, outcome text, actor bigint, who text,
  cause text, note text, epoch bigint, at bigint, hash bytea, address text, began bigint
);
CREATE TYPE tally_row AS (
  kind text, state text, grp text, slot bigint, jobs bigint, claimed bigint, bytes text
);
