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

PRAGMA user_version = 9;
