-- How long a decision took, for figures. This file is never edited: later changes are later migrations.

-- Microseconds from the first look at the file to the decision; null where nothing was decided or measured.
ALTER TABLE event ADD COLUMN took_us INTEGER;
