-- A checksum of the bytes beside it, verified whenever they are read: SQLite notices a damaged page, and not a changed
-- bit in a value. NULL where the row is older than this column.
ALTER TABLE events ADD COLUMN checksum INTEGER;
ALTER TABLE snapshots ADD COLUMN checksum INTEGER;

PRAGMA user_version = 6;
