-- What was used of each budget, and what is set aside. `day` is when a budget of one day was made, by which old
-- ones are found; it never changes, so that drawing from a budget leaves the index alone.
CREATE TABLE budgets (
  budget     TEXT    PRIMARY KEY,
  used       INTEGER NOT NULL,
  reserved   INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  day        INTEGER
) WITHOUT ROWID;
CREATE INDEX budgets_by_day ON budgets (day) WHERE day IS NOT NULL;

-- What threads have set aside. `amounts` is NULL once it is settled: the row stays, so that the same key does not
-- reserve again, and goes with its thread.
CREATE TABLE reservations (
  number  INTEGER NOT NULL,
  key     TEXT    NOT NULL,
  amounts TEXT,
  PRIMARY KEY (number, key)
) WITHOUT ROWID;
CREATE INDEX reservations_open ON reservations (number, key) WHERE amounts IS NOT NULL;

-- `version` is the number of the change that wrote the record.
CREATE TABLE records (
  kind       TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  owner      TEXT    NOT NULL,
  version    INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  value      TEXT    NOT NULL,
  UNIQUE (kind, key)
);
CREATE INDEX records_by_owner ON records (kind, owner, key);

-- One row: how often a record was changed.
CREATE TABLE record_changes (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  count INTEGER NOT NULL
);
INSERT INTO record_changes (id, count) VALUES (1, 0);

PRAGMA user_version = 3;
