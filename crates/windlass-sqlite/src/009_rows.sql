-- Counts and lists the active runs of one owner without reading those of others.
CREATE INDEX runs_active_by_owner ON runs (owner, started_at, run) WHERE status IS NULL AND queued IS NULL;

-- Stores a thread's fork point in its row, so that lists do not read events. It comes from the second event; rows with
-- an unreadable second event stay NULL.
ALTER TABLE threads ADD COLUMN forked_from TEXT;
ALTER TABLE threads ADD COLUMN forked_until INTEGER;
UPDATE threads SET (forked_from, forked_until) = (
  SELECT json_extract(body, '$.from'), json_extract(body, '$.until') FROM events
  WHERE position = threads.number * 4294967296 + 2
    AND CASE WHEN json_valid(body) THEN json_extract(body, '$.type') = 'thread.forked' END
);

-- Sums of what runs used, by the quarter of a day in which they began. A run is counted in them (`counted` is 1) while its
-- row does not change: once it has ended, and while its thread waits. The others are few, and read one by one. The
-- migration fills both tables from the rows of runs.
ALTER TABLE runs ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_uncounted ON runs (started_at) WHERE counted = 0 AND queued IS NULL;
CREATE INDEX runs_by_time ON runs (number, started_at);
CREATE TABLE usage (
  quarter      INTEGER NOT NULL,
  workspace    TEXT    NOT NULL,
  owner        TEXT    NOT NULL,
  model        TEXT    NOT NULL,
  agent        TEXT    NOT NULL,
  runs         INTEGER NOT NULL,
  ended        INTEGER NOT NULL,
  duration_ms  INTEGER NOT NULL,
  input        INTEGER NOT NULL,
  output       INTEGER NOT NULL,
  cached       INTEGER NOT NULL,
  cost         INTEGER NOT NULL,
  approved     INTEGER NOT NULL,
  denied       INTEGER NOT NULL,
  ttft_ms      INTEGER NOT NULL,
  ttft_runs    INTEGER NOT NULL,
  cost_unknown INTEGER NOT NULL,
  PRIMARY KEY (quarter, workspace, owner, model, agent)
) WITHOUT ROWID;

-- Threads with counted runs in a quarter. Rows with `previous` -1 count all of them; the others count those whose last
-- counted run before began in the quarter `previous`. So a sum over several quarters counts each thread once: all of
-- each quarter, less those with a run in an earlier quarter of the sum. `by_model` is 1 for runs of one model and agent,
-- and 0 for all runs, where model and agent are empty.
CREATE TABLE usage_threads (
  quarter   INTEGER NOT NULL,
  workspace TEXT    NOT NULL,
  owner     TEXT    NOT NULL,
  previous  INTEGER NOT NULL,
  by_model  INTEGER NOT NULL,
  model     TEXT    NOT NULL,
  agent     TEXT    NOT NULL,
  threads   INTEGER NOT NULL,
  PRIMARY KEY (quarter, workspace, owner, previous, by_model, model, agent)
) WITHOUT ROWID;

-- The newest change of the records of some owners of a kind. Owners share a slot, so that there are few rows.
CREATE TABLE record_owners (
  kind    TEXT    NOT NULL,
  slot    INTEGER NOT NULL,
  changed INTEGER NOT NULL,
  PRIMARY KEY (kind, slot)
) WITHOUT ROWID;

-- What a thread's run asks, as JSON with a version, so that lists of it do not fold journals. NULL where it asks nothing,
-- and for threads that asked before this column was there.
ALTER TABLE threads ADD COLUMN asks TEXT;

-- Lists of a tenant, and of threads that do or ask something, without those of others and without deleted ones.
DROP INDEX threads_by_minute;
CREATE INDEX threads_by_minute ON threads (minute) WHERE deleted = 0;
CREATE INDEX threads_by_workspace ON threads (workspace, minute) WHERE deleted = 0;
CREATE INDEX threads_busy ON threads (status, owner, minute) WHERE status <> 0;
CREATE INDEX threads_asking_by_owner ON threads (owner, minute) WHERE interrupts > 0;

-- Finds titles by any part of them. Two control characters, which no title has, end each title, so that its last
-- characters begin a sequence of three as well.
CREATE VIRTUAL TABLE titles USING fts5 (
  title, content = '', contentless_delete = 1, detail = full, tokenize = 'trigram case_sensitive 1'
);
CREATE VIRTUAL TABLE title_parts USING fts5vocab (titles, row);
CREATE TRIGGER titles_kept AFTER UPDATE OF title_lower ON threads WHEN OLD.title_lower IS NOT NEW.title_lower BEGIN
  DELETE FROM titles WHERE rowid = OLD.number;
  INSERT INTO titles (rowid, title)
    SELECT NEW.number, NEW.title_lower || char(1, 1) WHERE NEW.title_lower IS NOT NULL;
END;
INSERT INTO titles (rowid, title) SELECT number, title_lower || char(1, 1) FROM threads WHERE title_lower IS NOT NULL;
-- Merges the segments that so many titles at once leave: otherwise the first new titles would pay for it.
INSERT INTO titles (titles) VALUES ('optimize');

-- Counts of the threads that do something, by what they do, and of their open interrupts.
CREATE TABLE standings (
  status     INTEGER PRIMARY KEY,
  threads    INTEGER NOT NULL,
  interrupts INTEGER NOT NULL
);
INSERT INTO standings (status, threads, interrupts)
  SELECT column1, (SELECT count(*) FROM threads WHERE status = column1),
    (SELECT coalesce(sum(interrupts), 0) FROM threads WHERE status = column1)
  FROM (VALUES (1), (2), (3));
CREATE TRIGGER standings_kept AFTER UPDATE OF status, interrupts ON threads
WHEN OLD.status <> NEW.status OR OLD.interrupts <> NEW.interrupts BEGIN
  UPDATE standings SET threads = threads - 1, interrupts = interrupts - OLD.interrupts WHERE status = OLD.status;
  UPDATE standings SET threads = threads + 1, interrupts = interrupts + NEW.interrupts WHERE status = NEW.status;
END;

PRAGMA user_version = 9;
