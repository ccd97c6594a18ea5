package postgres

import (
	"context"
	"time"
)

// announcedFor is how long the text of a server is kept that does not announce any more.
const announcedFor = "24 hours"

// Announce replaces the text that a server announces to the other servers of the database. It is no part of backups,
// and a crash of the database may remove it: a server repeats it.
func (s *Store) Announce(ctx context.Context, server string, text []byte) error {
	_, err := s.pool.Exec(ctx, `WITH old AS (DELETE FROM announced
   WHERE server <> $1 AND at < clock_timestamp() - interval '`+announcedFor+`')
 INSERT INTO announced VALUES ($1, clock_timestamp(), $2)
 ON CONFLICT (server) DO UPDATE SET at = excluded.at, text = excluded.text`, server, text)
	if err != nil {
		return wrapped("announce", err)
	}
	return nil
}

// Announced calls each with the text of each server and how long ago it was announced, by the clock of the database.
func (s *Store) Announced(ctx context.Context, each func(server string, text []byte, age time.Duration)) error {
	return s.read(ctx, "announced", "", func(r *reader) error {
		rows, err := r.q.Query(r.ctx, `SELECT server, text,
 (extract(epoch FROM clock_timestamp() - at) * 1000000)::bigint FROM announced ORDER BY server`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var server string
			var text []byte
			var age int64
			if err := rows.Scan(&server, &text, &age); err != nil {
				return err
			}
			each(server, text, max(0, time.Duration(age)*time.Microsecond))
		}
		return rows.Err()
	})
}
