-- What layer 2 said about texts that it has read closely. This file is never edited: later changes are
-- later migrations.

-- By the hash of the judged text, so that the same text is read once, wherever it stands. `layer` is the
-- part of the model that read it and `model` the version of its weights: what another version said is worth
-- nothing. The probabilities are calibrated, 0 to 1. `start` and `stop` are the sentence that stands out, in
-- bytes of the text, or null; `nearest` is the name of the known attack that it is most like, in memfw's own
-- words, and `likeness` how much, or null.
CREATE TABLE score (
  hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  layer TEXT NOT NULL,
  model TEXT NOT NULL,
  injection REAL NOT NULL,
  poison REAL NOT NULL,
  start INTEGER,
  stop INTEGER,
  nearest TEXT,
  likeness REAL,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
