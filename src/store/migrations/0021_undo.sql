-- What `memfw undo` needs: the state before a person's decision, and where the placeholder was that a rejection
-- removed. This file is never edited: later changes are later migrations.

-- The state in which an item waited before it was approved or rejected.
ALTER TABLE quarantine ADD COLUMN former TEXT;
-- Where the placeholder was, as JSON of hashes of lines (memory/gap).
ALTER TABLE quarantine ADD COLUMN gap TEXT;
