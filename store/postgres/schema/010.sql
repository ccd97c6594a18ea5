-- The sum of the sizes of jobs may be too large for a bigint.
ALTER TABLE tally ALTER COLUMN bytes TYPE numeric;

-- The overview lists the jobs that failed, of which there may be few among many that have ended.
CREATE INDEX job_failed ON job_now (n) WHERE outcome IN ('failed', 'timed-out');

-- Jobs have words by which people find them: in order, with one blank between two; letters and digits only.
ALTER TABLE job_made ADD COLUMN words text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX job_worded ON job_made (n) WHERE words <> '';
CREATE TABLE job_word (word text COLLATE "C" NOT NULL, n bigint NOT NULL, PRIMARY KEY (word, n));
