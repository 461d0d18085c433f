-- Versions of memory files: what another writer destroyed can be shown and brought back. This file is
-- never edited: later changes are later migrations.

-- The bytes of versions, each of them once. `base` is the content that the sealed bytes are a difference
-- to; `depth` is how many differences lie between this one and a whole one, `chain` how many bytes these
-- take together. Ids never repeat (AUTOINCREMENT), for the seals are bound to them.
CREATE TABLE content (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
  len INTEGER NOT NULL,
  base INTEGER REFERENCES content (id),
  depth INTEGER NOT NULL,
  chain INTEGER NOT NULL,
  sealed BLOB NOT NULL
) STRICT;

CREATE INDEX content_base ON content (base);

-- Which file had which content, and when; `replaced_at` is null while nothing else has taken its place.
CREATE TABLE version (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  file INTEGER NOT NULL REFERENCES file (id),
  content INTEGER NOT NULL REFERENCES content (id),
  writer TEXT NOT NULL,
  seen_at INTEGER NOT NULL,
  replaced_at INTEGER
) STRICT;

CREATE INDEX version_file ON version (file);
CREATE INDEX version_content ON version (content);
CREATE INDEX version_replaced ON version (replaced_at) WHERE replaced_at IS NOT NULL;

-- How many bytes all contents take: asked at each write, so it is kept up and not counted.
CREATE TABLE version_total (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  bytes INTEGER NOT NULL
) STRICT;

INSERT INTO version_total (one, bytes) VALUES (1, 0);

CREATE TRIGGER content_comes AFTER INSERT ON content BEGIN
  UPDATE version_total SET bytes = bytes + length(NEW.sealed);
END;

CREATE TRIGGER content_goes AFTER DELETE ON content BEGIN
  UPDATE version_total SET bytes = bytes - length(OLD.sealed);
END;

-- The hash of the file, memfw's comments included, of which the newest version was made.
ALTER TABLE file ADD COLUMN kept BLOB CHECK (kept IS NULL OR length(kept) = 32);
