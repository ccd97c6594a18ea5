-- One row while a migration reads or writes the store, and afterwards in its source: what it has made of the store.
CREATE TABLE migration (
  one INTEGER PRIMARY KEY CHECK (one = 1), state TEXT NOT NULL, other TEXT NOT NULL, at INTEGER NOT NULL
) STRICT;
