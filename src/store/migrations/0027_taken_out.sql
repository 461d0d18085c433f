-- What `memfw undo` needs to take a take-out by hand back: the block that a person had taken out of its file, its
-- state before, and who took it out when.
-- This file is never edited: later changes are later migrations.

ALTER TABLE quarantine ADD COLUMN taken_block TEXT;
ALTER TABLE quarantine ADD COLUMN taken_state TEXT;
ALTER TABLE quarantine ADD COLUMN taken_at INTEGER;
ALTER TABLE quarantine ADD COLUMN taken_by TEXT;

CREATE INDEX quarantine_taken_block ON quarantine (taken_block) WHERE taken_block IS NOT NULL;
