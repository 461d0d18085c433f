-- What the owner had asked for when a text was written, and what of its origin explains it. This file is
-- never edited: later changes are later migrations.

-- By a hash of both, under seal; `revision` and `quarantine` name it, so that blocks are loaded without it.
CREATE TABLE request (
  hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  sealed BLOB NOT NULL,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX request_at ON request (at);

ALTER TABLE revision ADD COLUMN request BLOB CHECK (request IS NULL OR length(request) = 32);
ALTER TABLE quarantine ADD COLUMN request BLOB CHECK (request IS NULL OR length(request) = 32);

CREATE INDEX revision_request ON revision (request) WHERE request IS NOT NULL;
CREATE INDEX quarantine_request ON quarantine (request) WHERE request IS NOT NULL;
