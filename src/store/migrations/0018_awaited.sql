-- What a person approved and what is not back in its file yet: it was decided, and could not be written.
ALTER TABLE quarantine ADD COLUMN awaited INTEGER NOT NULL DEFAULT 0;
