-- What the model thinks of the authority of a text from outside. This file is never edited: later changes are
-- later migrations.

-- What was said before is worth nothing, for the model is another one.
DROP TABLE score;

-- As in 0006, and: `context` is the hash of what the model was told about the text besides it (kind of source,
-- what the owner had asked), empty where it was told nothing. `authority` is the probability that somebody
-- outside gains power by the text, null where nothing was told.
CREATE TABLE score (
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  context BLOB NOT NULL CHECK (length(context) IN (0, 32)),
  layer TEXT NOT NULL,
  model TEXT NOT NULL,
  injection REAL NOT NULL,
  poison REAL NOT NULL,
  authority REAL,
  start INTEGER,
  stop INTEGER,
  nearest TEXT,
  likeness REAL,
  at INTEGER NOT NULL,
  PRIMARY KEY (hash, context)
) STRICT, WITHOUT ROWID;
