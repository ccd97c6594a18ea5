package inventory

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// located has the ids of storage locations that an inventory in a file has, by name: an ingest asks for them several
// times for each object, and no other process changes them. An inventory in PostgreSQL has none.
type located struct {
	mu  sync.Mutex // guards ids, and is held while they are read or changed
	ids map[string]string
}

// Location gives the id of the storage location that is used under a name; "" if there is none yet.
func (i *Inventory) Location(ctx context.Context, place string) (id string, err error) {
	if i.shared != nil {
		return i.location(ctx, place)
	}
	i.located.mu.Lock()
	defer i.located.mu.Unlock()
	if id := i.located.ids[place]; id != "" {
		return id, nil
	}
	if id, err = i.location(ctx, place); err == nil && id != "" {
		if i.located.ids == nil {
			i.located.ids = map[string]string{}
		}
		i.located.ids[place] = id
	}
	return id, err
}

// location is Location by the database.
func (i *Inventory) location(ctx context.Context, place string) (id string, err error) {
	err = i.read.QueryRowContext(ctx, "SELECT id FROM locations WHERE place = ?", place).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("location %s: %w", place, err)
	}
	return id, nil
}

// EnterLocation notes the id of the storage location that is used under a name from now on.
func (i *Inventory) EnterLocation(ctx context.Context, place, id string, at time.Time) error {
	i.located.mu.Lock()
	defer i.located.mu.Unlock()
	delete(i.located.ids, place)
	err := i.tx(ctx, func(tx *change) error {
		_, err := tx.ExecContext(ctx,
			"INSERT INTO locations VALUES (?1, ?2, ?3) ON CONFLICT (place) DO UPDATE SET id = ?2, since = ?3",
			place, id, at.UTC().Format(time.RFC3339))
		return err
	})
	if err != nil {
		return fmt.Errorf("location %s: %w", place, err)
	}
	return nil
}

// JobsOf gives the jobs that were named for an object, those that stored nothing included.
func (i *Inventory) JobsOf(ctx context.Context, ark string) ([]string, error) {
	jobs, err := rows(ctx, i.read, func(r *sql.Rows) (job string, err error) {
		err = r.Scan(&job)
		return job, err
	}, "SELECT job FROM named WHERE ark = ?1 UNION SELECT job FROM versions WHERE ark = ?1", ark)
	if err != nil {
		return nil, fmt.Errorf("jobs of %s: %w", ark, err)
	}
	return jobs, nil
}

// NewestJobs gives the newest job that was named for each object with an ARK or local id, whatever became of it.
func (i *Inventory) NewestJobs(ctx context.Context, name string) ([]string, error) {
	jobs, err := rows(ctx, i.read, func(r *sql.Rows) (job string, err error) {
		err = r.Scan(&job)
		return job, err
	}, `WITH these (ark) AS (SELECT ?1 UNION SELECT ark FROM local_ids WHERE local_id = ?1),
 jobs (ark, job) AS (SELECT ark, job FROM named WHERE ark IN (SELECT ark FROM these)
 	UNION SELECT ark, job FROM versions WHERE ark IN (SELECT ark FROM these))
 SELECT max(job) FROM jobs GROUP BY ark ORDER BY 1 DESC LIMIT 20`, name)
	if err != nil {
		return nil, fmt.Errorf("jobs of %s: %w", name, err)
	}
	return jobs, nil
}

// HasVersionsIn reports whether a version is in a storage location.
func (i *Inventory) HasVersionsIn(ctx context.Context, place string) (has bool, err error) {
	err = i.read.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM places WHERE place = ?)", place).Scan(&has)
	return has, err
}
