-- schema 5 of SQLite
ALTER TABLE copies ADD COLUMN found text NOT NULL DEFAULT '';
