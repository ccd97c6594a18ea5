-- Jobs have words by which people find them. Triggers keep the index from words to jobs.
ALTER TABLE job_made ADD COLUMN words TEXT; -- in order, with one blank between two; letters and digits only
CREATE INDEX job_worded ON job_made (n) WHERE words IS NOT NULL;
CREATE TABLE job_word (word TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (word, n)) STRICT, WITHOUT ROWID;
CREATE TRIGGER job_words AFTER UPDATE OF words ON job_made BEGIN
  DELETE FROM job_word WHERE n = OLD.n
    AND word IN (SELECT value FROM json_each('["' || replace(OLD.words, ' ', '","') || '"]'));
  INSERT OR IGNORE INTO job_word
    SELECT value, NEW.n FROM json_each('["' || replace(NEW.words, ' ', '","') || '"]');
END;
CREATE TRIGGER job_wordless AFTER DELETE ON job_made WHEN OLD.words IS NOT NULL BEGIN
  DELETE FROM job_word WHERE n = OLD.n
    AND word IN (SELECT value FROM json_each('["' || replace(OLD.words, ' ', '","') || '"]'));
END;
