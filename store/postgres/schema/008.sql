-- What each server announces to the others, such as the workers that send requests to it. A crash of the database may
-- empty it: each server writes its row again.
CREATE UNLOGGED TABLE announced (
  server text PRIMARY KEY, at timestamptz NOT NULL, text bytea NOT NULL
) WITH (fillfactor = 50);

-- Entries of the audit log about holds, without those of the events hold and release of a lifecycle, which have a kind.
CREATE INDEX audit_hold ON audit (a) WHERE event IN ('hold', 'release') AND kind = '';

-- Messages are found by topic: due ones in order, and those of a list newest first.
DROP INDEX message_pending;
DROP INDEX message_settled;
CREATE INDEX message_due ON message (topic, due, m) WHERE settled = '';
CREATE INDEX message_list ON message (topic, settled, m);
