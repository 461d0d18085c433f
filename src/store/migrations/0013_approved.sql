-- Which lines of a block a person has approved. This file is never edited: later changes are later migrations.

ALTER TABLE revision ADD COLUMN approved INTEGER NOT NULL DEFAULT 0 CHECK (approved IN (0, 1));

UPDATE revision SET approved = 1 WHERE block IN (SELECT key FROM block WHERE state = 'approved');
