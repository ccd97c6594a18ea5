package sqldb

import (
	"context"
	"database/sql"
	"errors"
)

// Querier runs queries: a database, or what prepares its statements.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// All reads the rows of a query.
func All[T any](ctx context.Context, db Querier, scan func(*sql.Rows) (T, error), query string,
	args ...any) (all []T, err error) {
	r, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for r.Next() {
		one, err := scan(r)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, r.Err()
}
