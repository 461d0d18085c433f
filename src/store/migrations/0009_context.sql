-- Where decisions about texts were made. This file is never edited: later changes are later migrations.

-- A name for the file and for the lines directly around a text in its block when it was taken out; null where
-- that was not written down.
ALTER TABLE quarantine ADD COLUMN context BLOB CHECK (context IS NULL OR length(context) = 32);

-- In which of such contexts an approval of a text holds. One without any is older than this table.
CREATE TABLE exception_context (
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  context BLOB NOT NULL CHECK (length(context) = 32),
  PRIMARY KEY (hash, context)
) STRICT, WITHOUT ROWID;
