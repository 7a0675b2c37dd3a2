-- Indexes for the sweep. Waiting threads are in neither, so the sweep does not read them.
DROP INDEX threads_to_drive;
CREATE INDEX threads_running ON threads (number) WHERE status = 1;
CREATE INDEX threads_due ON threads (deadline) WHERE deadline IS NOT NULL;

PRAGMA user_version = 4;
