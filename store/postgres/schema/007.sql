-- Each transition of a job adds an entry to each index of its row. One index has what three had of claimed jobs, of
-- which there are few; the jobs of a state that a limit counts are found by job_state.
DROP INDEX job_claimed, job_worker, job_until, job_occupies;
CREATE INDEX job_claimed ON job_now (kind, lane, until, worker) WHERE worker <> '';
