-- Items that were divided because a person approved a part of them: each part is an item of its own.
-- This file is never edited: later changes are later migrations.

-- The item of which this one is a part, and the offset in its text, in bytes.
ALTER TABLE quarantine ADD COLUMN part_of TEXT;
ALTER TABLE quarantine ADD COLUMN part_offset INTEGER;
-- Whether it begins or ends within a line.
ALTER TABLE quarantine ADD COLUMN part_inline INTEGER NOT NULL DEFAULT 0 CHECK (part_inline IN (0, 1));

CREATE INDEX quarantine_part_of ON quarantine (part_of) WHERE part_of IS NOT NULL;
