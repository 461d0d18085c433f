-- One exception for each approved item: what one excuses, until when and where, says nothing about another item
-- with the same text.
-- This file is never edited: later changes are later migrations.

ALTER TABLE exception RENAME TO exception_of_text;
ALTER TABLE exception_context RENAME TO exception_context_of_text;

-- The item is empty where the approval is older than this table: it holds for every item with this text.
CREATE TABLE exception (
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  item TEXT NOT NULL,
  codes TEXT NOT NULL,
  reason TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  used_at INTEGER,
  uses INTEGER NOT NULL,
  PRIMARY KEY (hash, item)
) STRICT, WITHOUT ROWID;

INSERT INTO exception (hash, item, codes, reason, created_at, expires_at, used_at, uses)
  SELECT hash, '', codes, reason, created_at, expires_at, used_at, uses FROM exception_of_text;
DROP TABLE exception_of_text;

-- In which contexts each of them holds. One without any is older than contexts.
CREATE TABLE exception_context (
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  item TEXT NOT NULL,
  context BLOB NOT NULL CHECK (length(context) = 32),
  PRIMARY KEY (hash, item, context)
) STRICT, WITHOUT ROWID;

INSERT INTO exception_context (hash, item, context)
  SELECT hash, '', context FROM exception_context_of_text;
DROP TABLE exception_context_of_text;
