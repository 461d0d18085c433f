-- Skills that the agent may follow: their files as hashes, what was found in them, and what the owner decided.
-- This file is never edited: later changes are later migrations.

-- One state of a skill's files: a line for each file, with kind, hash, size and path. By the SHA-256 of `files`.
CREATE TABLE skill_manifest (
  hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  files TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each directory of a skill, without links in its path.
CREATE TABLE skill (
  dir BLOB NOT NULL PRIMARY KEY,
  -- What it calls itself: text of its author, or the name of its directory.
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  -- Whether it was there at the last check.
  is_present INTEGER NOT NULL CHECK (is_present IN (0, 1)),
  first_seen_at INTEGER NOT NULL,
  -- When its files were last found different.
  changed_at INTEGER NOT NULL,
  manifest BLOB NOT NULL REFERENCES skill_manifest (hash),
  -- What its files are compared with: what the owner trusted last, or else the first sight.
  base BLOB NOT NULL REFERENCES skill_manifest (hash),
  -- When and by whom the base was trusted; null if it is not trusted.
  trusted_at INTEGER,
  trusted_by TEXT,
  -- Of how many blocks of its text there are findings, and their codes.
  findings INTEGER NOT NULL,
  codes TEXT NOT NULL,
  signature TEXT NOT NULL,
  -- The id of the trusted key that made the signature.
  signed_by TEXT
) STRICT, WITHOUT ROWID;

-- The public keys of minisign whose signatures the owner trusts.
CREATE TABLE skill_key (
  id TEXT NOT NULL PRIMARY KEY,
  key TEXT NOT NULL,
  name TEXT NOT NULL,
  added_at INTEGER NOT NULL,
  added_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
