-- The number of the last record of the log in front whose rows are in the tables; see docs/design.md.
ALTER TABLE head ADD COLUMN logged INTEGER NOT NULL DEFAULT 0;
