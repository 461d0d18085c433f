-- Who wrote what, as the agent's own records tell it. This file is never edited: later changes are later
-- migrations.

-- What the origin of a text rests on: JSON with names, addresses and times, never the text; empty for
-- nothing. `version` is the hash of the whole file in which the text was first seen, as its writer left it,
-- and `changed_at` is when that version had been changed by its own time stamp; null where nobody looked.
-- `due` is whether the agent's records are still to be asked about it.
ALTER TABLE revision ADD COLUMN evidence TEXT NOT NULL DEFAULT '';
ALTER TABLE revision ADD COLUMN version BLOB CHECK (version IS NULL OR length(version) = 32);
ALTER TABLE revision ADD COLUMN changed_at INTEGER;
ALTER TABLE revision ADD COLUMN due INTEGER NOT NULL DEFAULT 0 CHECK (due IN (0, 1));

CREATE INDEX revision_due ON revision (block) WHERE due = 1;

ALTER TABLE quarantine ADD COLUMN evidence TEXT NOT NULL DEFAULT '';
ALTER TABLE quarantine ADD COLUMN version BLOB CHECK (version IS NULL OR length(version) = 32);
ALTER TABLE quarantine ADD COLUMN changed_at INTEGER;
ALTER TABLE quarantine ADD COLUMN due INTEGER NOT NULL DEFAULT 0 CHECK (due IN (0, 1));

CREATE INDEX quarantine_due ON quarantine (path) WHERE due = 1;

ALTER TABLE event ADD COLUMN attestation TEXT;
ALTER TABLE event ADD COLUMN session TEXT;

-- How the agent's records stood to a file when it was looked at last. `version` is what the file held then;
-- `recorded` and `class` are the hash and the class on record, null for no record; `edited_at` is when an
-- edit of ours made that version, null where somebody else had written it. `fallen` is the version whose
-- write cost the file its class, and `former` the class before it; both null while there is none to go back
-- to.
CREATE TABLE standing (
  file INTEGER NOT NULL PRIMARY KEY REFERENCES file (id),
  version BLOB NOT NULL CHECK (length(version) = 32),
  recorded BLOB CHECK (recorded IS NULL OR length(recorded) = 32),
  class TEXT,
  edited_at INTEGER,
  fallen BLOB CHECK (fallen IS NULL OR length(fallen) = 32),
  former TEXT
) STRICT;
