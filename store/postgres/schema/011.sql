-- A job is overdue from the end of its claim or of its time in the state on, whichever is first. The jobs of each kind
-- are in that order, so that a search reads those that it returns; it used to read all claims, and the timers of all
-- kinds. The index of claims needs no ends then. The first column is an expression, so that a search with it has no
-- other index.
DROP INDEX job_claimed, job_expires;
CREATE INDEX job_claimed ON job_now (kind, lane, worker) WHERE worker <> '';
CREATE INDEX job_overdue ON job_now ((kind || ''), (CASE WHEN ended = 0 THEN least(
  CASE WHEN worker <> '' AND until <> 0 THEN until END, CASE WHEN expires <> 0 THEN expires END) END))
 WHERE CASE WHEN ended = 0 THEN least(
  CASE WHEN worker <> '' AND until <> 0 THEN until END, CASE WHEN expires <> 0 THEN expires END) END IS NOT NULL;

-- Retention lists the ended jobs of a state by their age. No other list has this index.
CREATE INDEX job_aged ON job_now ((kind || ''), state, changed, n) WHERE ended > 0;

-- A program gives entries a higher form if they have a field that programs up to this one do not have. These still read
-- histories until they are upgraded too, and report such an entry as written by a newer version, not as changed.
ALTER TABLE event ADD COLUMN form smallint NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN form smallint NOT NULL DEFAULT 0;
