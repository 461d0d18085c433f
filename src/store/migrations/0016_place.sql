-- Files that were renamed. This file is never edited: later changes are later migrations.

-- The path that names the file in the contexts of decisions, where it is not the one that it has now.
ALTER TABLE file ADD COLUMN place BLOB;
-- What the file was when it went.
ALTER TABLE file ADD COLUMN gone_hash BLOB CHECK (gone_hash IS NULL OR length(gone_hash) = 32);
ALTER TABLE file ADD COLUMN gone_dev INTEGER;
ALTER TABLE file ADD COLUMN gone_ino INTEGER;
-- The path for which an item is sealed, where it is not the one that it has now.
ALTER TABLE quarantine ADD COLUMN place BLOB;

CREATE INDEX file_place ON file (place) WHERE place IS NOT NULL;
CREATE INDEX file_content ON file (workspace, coalesce(hash, gone_hash));
