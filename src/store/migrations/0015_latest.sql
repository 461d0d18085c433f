-- What attribution is told about memory is looked up for each file that changed: the files that were changed last,
-- and the newest items whose origin was told. This file is never edited: later changes are later migrations.
CREATE INDEX file_latest ON file (workspace, mtime_ns) WHERE status = 'watched';
CREATE INDEX quarantine_told ON quarantine (quarantined_at)
  WHERE due = 0 AND source NOT IN ('baseline', 'unknown', 'external-edit');
