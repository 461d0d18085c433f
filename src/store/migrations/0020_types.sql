-- Counts in a column instead of in English, and the keys of other state under names that say what they hold.
-- This file is never edited: later changes are later migrations.

-- How many blocks, items or rows an event is about, for those that count any.
ALTER TABLE event ADD COLUMN count INTEGER;
UPDATE event SET count = CAST(detail AS INTEGER)
  WHERE event = 'adopted' AND detail GLOB '[0-9]* block*';

ALTER TABLE health RENAME TO state;
UPDATE state SET key = 'notified' WHERE key = 'told';
UPDATE state SET key = 'judged-since' WHERE key = 'judge';
