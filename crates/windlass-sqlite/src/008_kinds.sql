-- The newest change of each kind of record: a look at one kind does not depend on changes of the others.
CREATE TABLE record_kinds (
  kind    TEXT PRIMARY KEY,
  changed INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO record_kinds (kind, changed) SELECT kind, max(version) FROM records GROUP BY kind;

PRAGMA user_version = 8;
