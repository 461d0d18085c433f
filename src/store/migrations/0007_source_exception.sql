-- What a person excused for all text of one source. This file is never edited: later changes are later
-- migrations.

-- One row a source and code. `reason` and `made_by` are the words and the name of whoever said so.
CREATE TABLE source_exception (
  source TEXT NOT NULL,
  code TEXT NOT NULL,
  reason TEXT NOT NULL,
  made_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  used_at INTEGER,
  uses INTEGER NOT NULL,
  PRIMARY KEY (source, code)
) STRICT, WITHOUT ROWID;
