-- One row while a migration reads or writes the store, and afterwards in its source: what it has made of the store.
CREATE TABLE migration (
  one integer PRIMARY KEY CHECK (one = 1), state text NOT NULL, other text NOT NULL, at bigint NOT NULL
);
