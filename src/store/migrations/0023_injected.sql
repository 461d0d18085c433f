-- Which entries of memory were handed to which run of an agent, so that a later finding tells who has read the text.
-- This file is never edited: later changes are later migrations.

-- The hashes of the lines that were handed out, 8 bytes each, in ascending order. Runs mostly read the same memory,
-- so a set is stored once. By the SHA-256 of `lines`.
CREATE TABLE injected_set (
  hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  lines BLOB NOT NULL CHECK (length(lines) % 8 = 0)
) STRICT, WITHOUT ROWID;

-- One row for each time that a run got text: at its start, or by a tool, which `via` names.
CREATE TABLE injected (
  id INTEGER NOT NULL PRIMARY KEY,
  at INTEGER NOT NULL,
  run TEXT NOT NULL,
  session TEXT NOT NULL,
  agent TEXT NOT NULL,
  via TEXT NOT NULL,
  lines BLOB NOT NULL REFERENCES injected_set (hash)
) STRICT;

CREATE INDEX injected_at ON injected (at);
CREATE INDEX injected_lines ON injected (lines);
