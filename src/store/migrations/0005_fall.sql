-- What has to be shown before a class goes back that an edit of memfw alone has cost a file.
ALTER TABLE standing ADD COLUMN only_adds INTEGER CHECK (only_adds IS NULL OR only_adds IN (0, 1));
-- Hashes of versions, 32 bytes each.
ALTER TABLE standing ADD COLUMN unproven BLOB CHECK (unproven IS NULL OR length(unproven) % 32 = 0);
-- Hashes of lines, 8 bytes each.
ALTER TABLE standing ADD COLUMN gone BLOB CHECK (gone IS NULL OR length(gone) % 8 = 0);
