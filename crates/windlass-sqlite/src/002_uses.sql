-- Which thread names which blob, written in the transaction that records the name. A blob that no thread
-- names may go. Digests are not unique to a thread: the same bytes are kept once.
CREATE TABLE uses (
  digest BLOB    NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY (digest, number)
) WITHOUT ROWID;
CREATE INDEX uses_by_thread ON uses (number);

-- Blobs that perhaps no thread names: stored before what is to name them, or named by a thread that is gone.
-- `since` is when they were last stored by themselves; 0 where that is long ago.
CREATE TABLE loose (
  digest BLOB    PRIMARY KEY,
  since  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX loose_by_time ON loose (since);

PRAGMA user_version = 2;
