-- How many bytes of hash the lines of a block have: 24, or 8 where an older version recorded them. Two lines with equal
-- 8 bytes can be made in minutes. This file is never edited: later changes are later migrations.

ALTER TABLE block ADD COLUMN line_hash INTEGER NOT NULL DEFAULT 8 CHECK (line_hash IN (8, 24));
ALTER TABLE baseline ADD COLUMN line_hash INTEGER NOT NULL DEFAULT 8 CHECK (line_hash IN (8, 24));

-- Each file is read once more, which completes the hashes of its lines.
UPDATE file SET dev = NULL, ino = NULL, size = NULL, mtime_ns = NULL, ctime_ns = NULL;
