-- The sum of the sizes of jobs may be too large for a bigint.
ALTER TABLE tally ALTER COLUMN bytes TYPE numeric;

-- The overview lists the jobs that failed, of which there may be few among many that have ended.
CREATE INDEX job_failed ON job_now (n) WHERE outcome IN ('failed', 'timed-out');
