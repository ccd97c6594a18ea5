-- One row: the id of the installation, made once with the data directory. Other files of the directory, and storage locations, repeat it.
CREATE TABLE installation (one INTEGER PRIMARY KEY CHECK (one = 1), id TEXT NOT NULL, made TEXT NOT NULL) STRICT;
