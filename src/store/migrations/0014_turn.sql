-- Whose entry a question is about, so that all sources have their turn. This file is never edited: later changes
-- are later migrations.
ALTER TABLE question ADD COLUMN source TEXT NOT NULL DEFAULT '';
