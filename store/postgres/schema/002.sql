-- The id of the installation, and of the shared directory with the files that records refer to ('': none was registered).
CREATE TABLE installation (
  one integer PRIMARY KEY CHECK (one = 1), id text NOT NULL, since text NOT NULL, files text NOT NULL DEFAULT ''
);
