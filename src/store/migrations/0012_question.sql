-- What a model that reads is asked about new entries, and what it said. This file is never edited: later
-- changes are later migrations.

-- By the hash of the question, so that each is asked once. `sealed` is the question as long as it waits; an
-- answer has `ruling` and perhaps `effect`. `nonce` is the chance of the prompt that was handed out last, and
-- `next_at` says when the question may be handed out (again).
CREATE TABLE question (
  hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  state TEXT NOT NULL CHECK (state IN ('waiting', 'answered', 'failed')),
  sealed BLOB,
  nonce BLOB CHECK (nonce IS NULL OR length(nonce) = 16),
  tries INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  ruling TEXT,
  effect TEXT,
  at INTEGER NOT NULL,
  CHECK ((state = 'waiting') = (sealed IS NOT NULL)),
  CHECK ((state = 'answered') = (ruling IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX question_waiting ON question (next_at) WHERE state = 'waiting';
CREATE INDEX question_at ON question (at);

-- The files in which the entry stood, which are looked at again when the answer is there.
CREATE TABLE question_file (
  hash BLOB NOT NULL REFERENCES question (hash) ON DELETE CASCADE,
  path BLOB NOT NULL,
  PRIMARY KEY (hash, path)
) STRICT, WITHOUT ROWID;

-- What was asked in each hour since 1970, for the budget and `status`.
CREATE TABLE question_hour (
  hour INTEGER NOT NULL PRIMARY KEY,
  asked INTEGER NOT NULL,
  answered INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  refused INTEGER NOT NULL
) STRICT;
