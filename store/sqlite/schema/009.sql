-- Messages are found by topic: due ones in order, and those of a list newest first.
DROP INDEX message_pending;
DROP INDEX message_given_up;
CREATE INDEX message_due ON message (topic, due) WHERE settled IS NULL;
CREATE INDEX message_list ON message (topic, settled, m);

-- Entries of the audit log about holds, without those of the events hold and release of a lifecycle, which have a kind.
CREATE INDEX audit_hold ON audit (a) WHERE event IN ('hold', 'release') AND kind IS NULL;
