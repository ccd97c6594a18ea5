-- The sum of the sizes of jobs may be too large for a bigint.
ALTER TABLE tally ALTER COLUMN bytes TYPE numeric;
