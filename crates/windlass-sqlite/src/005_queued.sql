-- A run whose message waits in its thread's queue has a row from then on: `queued` is that message's id, and NULL once
-- the run has begun.
ALTER TABLE runs ADD COLUMN queued TEXT;

PRAGMA user_version = 5;
