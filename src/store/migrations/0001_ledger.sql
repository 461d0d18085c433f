-- The first schema of the ledger. This file is never edited: later changes are later migrations.
--
-- Paths are bytes, as the system has them. Times are microseconds UTC. Hashes are SHA-256 of raw bytes.
-- No column holds text of a memory file except as a seal; `note`, `why`, `detail`, `reason` and
-- `findings` are memfw's or the user's own words.

CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE file (
  id INTEGER PRIMARY KEY,
  path BLOB NOT NULL UNIQUE,
  workspace BLOB NOT NULL,
  -- The stamp: all five or none. Unsigned numbers stand as the signed ones with the same bits.
  dev INTEGER,
  ino INTEGER,
  size INTEGER,
  mtime_ns INTEGER,
  ctime_ns INTEGER,
  hash BLOB CHECK (hash IS NULL OR length(hash) = 32),
  status TEXT NOT NULL,
  note TEXT,
  adopted_at INTEGER,
  scanned_at INTEGER,
  pending INTEGER NOT NULL,
  marker_mode TEXT NOT NULL,
  -- Why no fuller markers stand in it.
  unmarked TEXT
) STRICT;

-- Rows of blocks that left their file stay with present = 0: their history is evidence.
CREATE TABLE block (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  file INTEGER NOT NULL REFERENCES file (id),
  present INTEGER NOT NULL CHECK (present IN (0, 1)),
  ordinal INTEGER NOT NULL,
  start_line INTEGER NOT NULL,
  end_line INTEGER NOT NULL,
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  norm_hash BLOB NOT NULL CHECK (length(norm_hash) = 32),
  -- Sixteen bytes a line: eight of its hash, and big-endian four of the number of its revision and four of
  -- how many lines of the file it stands below the first one.
  lines BLOB NOT NULL CHECK (length(lines) % 16 = 0),
  marker TEXT,
  state TEXT NOT NULL,
  state_at INTEGER NOT NULL,
  codes TEXT NOT NULL,
  score REAL NOT NULL,
  findings TEXT NOT NULL,
  reviewed_at INTEGER,
  reviewed_by TEXT,
  gone_at INTEGER
) STRICT;

CREATE INDEX block_file ON block (file, present);
CREATE INDEX block_listed ON block (state) WHERE state = 'flagged' OR reviewed_at IS NOT NULL;

CREATE TABLE revision (
  block INTEGER NOT NULL REFERENCES block (key) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  source TEXT NOT NULL,
  trust TEXT NOT NULL,
  attestation TEXT NOT NULL,
  session TEXT,
  at INTEGER NOT NULL,
  PRIMARY KEY (block, number)
) STRICT, WITHOUT ROWID;

-- `n` numbers equal blocks that stand in one file at the same time; poison that comes back raises
-- `occurrences`. `sealed` and `redacted` are seals, or null once the bytes were deleted.
CREATE TABLE quarantine (
  id TEXT NOT NULL PRIMARY KEY,
  path BLOB NOT NULL,
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  n INTEGER NOT NULL,
  line INTEGER NOT NULL,
  status TEXT NOT NULL,
  source TEXT NOT NULL,
  trust TEXT NOT NULL,
  attestation TEXT NOT NULL,
  session TEXT,
  score REAL NOT NULL,
  layer TEXT NOT NULL,
  codes TEXT NOT NULL,
  findings TEXT NOT NULL,
  quarantined_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  reviewed_at INTEGER,
  reviewed_by TEXT,
  occurrences INTEGER NOT NULL,
  len INTEGER NOT NULL,
  terminated INTEGER NOT NULL CHECK (terminated IN (0, 1)),
  sealed BLOB,
  redacted BLOB,
  UNIQUE (hash, path, n)
) STRICT;

CREATE INDEX quarantine_path ON quarantine (path);
CREATE INDEX quarantine_status ON quarantine (status, quarantined_at);

CREATE TABLE exception (
  hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  codes TEXT NOT NULL,
  reason TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  used_at INTEGER,
  uses INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Open operations only: a finished one leaves with its images. Ids never repeat (AUTOINCREMENT).
CREATE TABLE op (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  path BLOB NOT NULL,
  dev INTEGER NOT NULL,
  ino INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  before_hash BLOB NOT NULL CHECK (length(before_hash) = 32),
  after_hash BLOB NOT NULL CHECK (length(after_hash) = 32),
  before BLOB NOT NULL,
  after BLOB NOT NULL,
  begun_at INTEGER NOT NULL
) STRICT;

CREATE TABLE event (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  event TEXT NOT NULL,
  path BLOB,
  block TEXT,
  source TEXT,
  trust TEXT,
  layer TEXT,
  codes TEXT NOT NULL,
  score REAL,
  action TEXT,
  detail TEXT NOT NULL
) STRICT;

CREATE INDEX event_at ON event (at);

CREATE TABLE health (
  key TEXT NOT NULL PRIMARY KEY,
  json TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
