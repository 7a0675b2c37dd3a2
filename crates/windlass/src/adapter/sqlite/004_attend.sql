-- What needs a driver is found by what it needs one for, so that threads that wait for days are not read for it.
DROP INDEX threads_to_drive;
CREATE INDEX threads_running ON threads (number) WHERE status = 1;
CREATE INDEX threads_due ON threads (deadline) WHERE deadline IS NOT NULL;

PRAGMA user_version = 4;
