package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/stagepost/stagepost/internal/pg"
)

// connector makes connections of database/sql that understand the statements of this package.
type connector struct {
	known   *statements
	inner   driver.Connector
	patient time.Duration // how long it waits for the database; 0: it tries once
	reads   bool          // statements may be repeated on another connection
}

// Driver is part of driver.Connector.
func (c *connector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// Connect is part of driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	wait, began := firstPause, time.Now()
	for {
		inner, err := c.inner.Connect(ctx)
		if err == nil {
			return &conn{Conn: inner.(*stdlib.Conn), c: c}, nil
		}
		if ctx.Err() != nil || !pg.Temporary(err) || time.Since(began) >= c.patient {
			return nil, unavailable(err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		}
	}
}

// conn is a connection.
type conn struct {
	*stdlib.Conn
	c *connector
}

// CheckNamedValue is part of driver.NamedValueChecker: it converts arguments as for other databases.
func (c *conn) CheckNamedValue(*driver.NamedValue) error { return driver.ErrSkip }

// arguments gives those of a statement in its order, in the form in which they are stored.
func (s *statement) arguments(given []driver.NamedValue) ([]driver.NamedValue, error) {
	args := make([]driver.NamedValue, len(s.args))
	for i, at := range s.args {
		if at >= len(given) {
			return nil, errors.New("a parameter has no argument")
		}
		v := given[at].Value
		switch x := v.(type) {
		case string:
			v = pg.Stored(x)
		case []byte:
			if x == nil {
				v = []byte{} // it is not NULL, as in SQLite
			}
		}
		args[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return args, nil
}

// ExecContext is part of driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, query string, given []driver.NamedValue) (driver.Result, error) {
	s := c.c.known.of(query)
	args, err := s.arguments(given)
	if err != nil {
		return nil, err
	}
	r, err := c.Conn.ExecContext(ctx, s.text, args)
	return r, c.failed(ctx, err)
}

// QueryContext is part of driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, query string, given []driver.NamedValue) (driver.Rows, error) {
	s := c.c.known.of(query)
	args, err := s.arguments(given)
	if err != nil {
		return nil, err
	}
	r, err := c.Conn.QueryContext(ctx, s.text, args)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	return &rows{Rows: r.(*stdlib.Rows)}, nil
}

// failed lets database/sql repeat a read on another connection if this one was lost.
func (c *conn) failed(ctx context.Context, err error) error {
	if err != nil && c.c.reads && ctx.Err() == nil && pg.Temporary(err) {
		return driver.ErrBadConn
	}
	return err
}

// PrepareContext is part of driver.ConnPrepareContext. The connection keeps what it prepared; a statement is its text.
func (c *conn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return &stmt{c: c, query: query}, nil
}

type stmt struct {
	c     *conn
	query string
}

func (s *stmt) Close() error  { return nil }
func (s *stmt) NumInput() int { return -1 }

func (s *stmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }
func (s *stmt) Query([]driver.Value) (driver.Rows, error)  { return nil, driver.ErrSkip }

// ExecContext is part of driver.StmtExecContext.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.c.ExecContext(ctx, s.query, args)
}

// QueryContext is part of driver.StmtQueryContext.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.QueryContext(ctx, s.query, args)
}

// rows are those of a result, with texts as they were before they were stored.
type rows struct{ *stdlib.Rows }

// Next is part of driver.Rows.
func (r *rows) Next(to []driver.Value) error {
	if err := r.Rows.Next(to); err == io.EOF {
		return err
	} else if err != nil {
		return unavailable(err)
	}
	for i, v := range to {
		if text, ok := v.(string); ok {
			to[i] = pg.Original(text)
		}
	}
	return nil
}
