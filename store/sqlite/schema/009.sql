-- Messages are found by topic: due ones in order, and those of a list newest first.
DROP INDEX message_pending;
DROP INDEX message_given_up;
CREATE INDEX message_due ON message (topic, due) WHERE settled IS NULL;
CREATE INDEX message_list ON message (topic, settled, m);
