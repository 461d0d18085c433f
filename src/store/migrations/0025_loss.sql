-- Losses: memory files from which another program removed much at once, for a person to decide about. This file is
-- never edited: later changes are later migrations.

CREATE TABLE loss (
  -- One name space with blocks and items.
  id TEXT NOT NULL PRIMARY KEY,
  file INTEGER NOT NULL REFERENCES file (id),
  state TEXT NOT NULL,
  -- The version that had the lines, and the one that has lost them; null if the file is gone.
  base BLOB NOT NULL CHECK (length(base) = 32),
  after BLOB CHECK (after IS NULL OR length(after) = 32),
  -- Since when the file is like that, and the number of its newest version then.
  since INTEGER NOT NULL,
  newest INTEGER NOT NULL,
  -- How many lines are lost, and how many the base has.
  lost INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  found_at INTEGER NOT NULL,
  reviewed_at INTEGER,
  reviewed_by TEXT,
  -- The version that a rejection left in the file.
  restored BLOB CHECK (restored IS NULL OR length(restored) = 32),
  -- From where on the file was measured before the decision.
  former_since INTEGER,
  former_newest INTEGER,
  -- Grows with each change of the row, so that nobody decides about another row than the one that was read.
  revision INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX loss_file ON loss (file);
-- Those that are measured again when a file changes.
CREATE INDEX loss_open ON loss (found_at) WHERE state IN ('moved', 'lost', 'restoring');

-- From where on a file is measured: a person decided what was before.
CREATE TABLE loss_start (
  file INTEGER NOT NULL PRIMARY KEY REFERENCES file (id),
  since INTEGER NOT NULL,
  newest INTEGER NOT NULL
) STRICT;

-- How often the file changed since it was last measured.
ALTER TABLE file ADD COLUMN unmeasured INTEGER NOT NULL DEFAULT 0;
CREATE INDEX file_unmeasured ON file (id) WHERE unmeasured > 0;

-- The oldest version that a file had within a time, and the current one of each file.
CREATE INDEX version_until ON version (file, replaced_at);
CREATE INDEX version_current ON version (content) WHERE replaced_at IS NULL;
