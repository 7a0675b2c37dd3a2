-- A thread's row, written by every append. `number` stands for the thread in other tables.
-- Indexed columns change seldom, so that most appends leave the indexes alone: `minute` is `updated_at`
-- in minutes. A deleted thread keeps its row, so that its epoch goes on and its last owner stays fenced.
CREATE TABLE threads (
  number      INTEGER PRIMARY KEY,
  thread      TEXT    NOT NULL UNIQUE,
  deleted     INTEGER NOT NULL DEFAULT 0,
  epoch       INTEGER NOT NULL DEFAULT 0,
  node        TEXT,
  head        INTEGER NOT NULL DEFAULT 0,
  batch       INTEGER NOT NULL DEFAULT 0,
  status      INTEGER NOT NULL DEFAULT 0,
  deadline    INTEGER,
  interrupts  INTEGER NOT NULL DEFAULT 0,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  minute      INTEGER NOT NULL DEFAULT 0,
  workspace   TEXT    NOT NULL DEFAULT '',
  owner       TEXT    NOT NULL DEFAULT '',
  folder      TEXT,
  title       TEXT,
  title_lower TEXT
);
CREATE INDEX threads_by_minute ON threads (minute);
CREATE INDEX threads_by_owner ON threads (owner, minute);
-- Few of many threads wait, and they stand still meanwhile.
CREATE INDEX threads_asking ON threads (minute) WHERE status = 2 OR interrupts > 0;
CREATE INDEX threads_to_drive ON threads (number) WHERE status = 1 OR deadline IS NOT NULL;

-- `position` is the thread's number in the upper 32 bits and the event's seq in the lower, so that a
-- thread's events lie together in the table itself, without a second index.
CREATE TABLE events (
  position INTEGER PRIMARY KEY,
  body     TEXT NOT NULL
);

-- `workspace` and `owner` are the thread's, so that a list of one owner's runs reads no others. Indexed columns
-- change when a run begins and when it ends, not with each step.
CREATE TABLE runs (
  run         TEXT    NOT NULL,
  number      INTEGER NOT NULL,
  workspace   TEXT    NOT NULL,
  owner       TEXT    NOT NULL,
  agent       TEXT    NOT NULL,
  model       TEXT    NOT NULL,
  status      INTEGER,
  from_seq    INTEGER NOT NULL,
  started_at  INTEGER NOT NULL,
  finished_at INTEGER,
  totals      TEXT    NOT NULL,
  PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE INDEX runs_by_thread ON runs (number, from_seq);
CREATE INDEX runs_by_start ON runs (started_at, run);
CREATE INDEX runs_by_owner ON runs (owner, started_at, run);
CREATE INDEX runs_active ON runs (started_at, run) WHERE status IS NULL;

-- The input goes once it is consumed; the outcome stays for 24 h.
CREATE TABLE inbox (
  place       INTEGER PRIMARY KEY AUTOINCREMENT,
  number      INTEGER NOT NULL,
  id          TEXT    NOT NULL,
  input       TEXT,
  outcome     TEXT,
  consumed_at INTEGER,
  UNIQUE (number, id)
);
CREATE INDEX inbox_waiting ON inbox (number, place) WHERE consumed_at IS NULL;
CREATE INDEX inbox_consumed ON inbox (consumed_at) WHERE consumed_at IS NOT NULL;

CREATE TABLE blobs (
  digest  BLOB NOT NULL UNIQUE,
  used_at INTEGER NOT NULL,
  bytes   BLOB NOT NULL
);

CREATE TABLE snapshots (
  number INTEGER PRIMARY KEY,
  fold   INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  bytes  BLOB NOT NULL
);

-- One row that `check` writes.
CREATE TABLE checks (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL
);

PRAGMA user_version = 1;
