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

PRAGMA user_version = 9;
