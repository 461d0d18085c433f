-- What was there before memfw and has neither changed since nor been found worth a word: one row a
-- file instead of two a block, for a first scan sees hundreds of thousands of them. The first change
-- of the file turns them into rows of `block` and `revision`.
CREATE TABLE baseline (
  file INTEGER NOT NULL PRIMARY KEY REFERENCES file (id),
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  trust TEXT NOT NULL,
  attestation TEXT NOT NULL,
  -- A block after the other, numbers big-endian: 6 bytes of id; ordinal, first and last line, number of
  -- lines, 4 bytes each; hash and hash with line ends normalised, 32 bytes each; 8 bytes of hash a line.
  blocks BLOB NOT NULL
) STRICT;
