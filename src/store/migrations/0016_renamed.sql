-- Files that were renamed. This file is never edited: later changes are later migrations.

-- What names the file in the contexts of decisions, where that is not the path that it has now: the path that it
-- had then, and a zero byte for each other file that has this name already.
ALTER TABLE file ADD COLUMN known_as BLOB;
-- What the file was when it went, or before it was renamed.
ALTER TABLE file ADD COLUMN gone_hash BLOB CHECK (gone_hash IS NULL OR length(gone_hash) = 32);
ALTER TABLE file ADD COLUMN gone_dev INTEGER;
ALTER TABLE file ADD COLUMN gone_ino INTEGER;
-- The path for which an item is sealed, where it is not the one that it has now.
ALTER TABLE quarantine ADD COLUMN sealed_for BLOB;

CREATE INDEX file_known_as ON file (known_as) WHERE known_as IS NOT NULL;
CREATE INDEX quarantine_sealed_for ON quarantine (sealed_for) WHERE sealed_for IS NOT NULL;
CREATE INDEX file_content ON file (workspace, coalesce(hash, gone_hash));
