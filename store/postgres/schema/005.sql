-- Entries of all histories have numbers, which anchors and exports name. A sequence gives them, when a transaction has
-- the locks of its jobs: those of one job increase. Those of different jobs need not increase in the order of commits,
-- and numbers can be missing.
ALTER TABLE event ADD COLUMN e bigint;
UPDATE event SET e = v.e FROM (SELECT job, seq, row_number() OVER (ORDER BY job, seq) AS e FROM event) v
 WHERE (event.job, event.seq) = (v.job, v.seq);
CREATE SEQUENCE entry OWNED BY event.e;
SELECT setval('entry', (SELECT count(*) + 1 FROM event), false);
ALTER TABLE event ALTER e SET DEFAULT nextval('entry'), ALTER e SET NOT NULL;
CREATE INDEX event_e ON event (e);
