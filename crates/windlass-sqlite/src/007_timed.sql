-- Finds threads that wait for a time and were written before the clock was set back: their minute is still to come.
CREATE INDEX threads_timed ON threads (minute) WHERE deadline IS NOT NULL;

PRAGMA user_version = 7;
