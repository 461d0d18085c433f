-- Where an answer found what it takes, and how often a question was handed out to nobody who answered.
-- This file is never edited: later changes are later migrations.

-- The first and last line of the entry that the answer quotes, from 0; nothing of its words.
ALTER TABLE question ADD COLUMN first_line INTEGER;
ALTER TABLE question ADD COLUMN last_line INTEGER;

-- From now on `tries` counts answers that do not count, and nothing else.
ALTER TABLE question ADD COLUMN silent INTEGER NOT NULL DEFAULT 0;
