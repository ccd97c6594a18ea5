-- Rows have a checksum over what they say, words included; none in rows that an earlier version wrote and nobody has changed since.
ALTER TABLE job_now ADD COLUMN sum INTEGER;
ALTER TABLE task ADD COLUMN sum INTEGER;
ALTER TABLE hold ADD COLUMN sum INTEGER;
ALTER TABLE message ADD COLUMN sum INTEGER;

-- One row: the newest commit, which the file `head` in the data directory repeats. `copied` is 1 in a database that has no such file yet: a new one,
-- the copy of a backup, one of an earlier version.
CREATE TABLE head (
  one INTEGER PRIMARY KEY CHECK (one = 1), series TEXT NOT NULL, seq INTEGER NOT NULL, mark INTEGER NOT NULL, at INTEGER NOT NULL, copied INTEGER NOT NULL
) STRICT;
INSERT INTO head VALUES (1, '', 0, 0, 0, 1);
