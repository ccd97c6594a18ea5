package inventory

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
)

// mostStatements is how many statements of one database stay prepared: lists are asked for in many forms.
const mostStatements = 128

// statements are those of a database that stay prepared, by their text. The zero value has none.
type statements struct {
	mu     sync.Mutex // guards all below
	all    map[string]*sql.Stmt
	missed map[string]bool // asked for and not prepared
}

// find gives a prepared statement. nil means that there is none; the text is then noted as missed.
func (s *statements) find(query string) *sql.Stmt {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stmt := s.all[query]
	if stmt == nil && len(s.all)+len(s.missed) < mostStatements && !strings.Contains(query, ";") {
		if s.missed == nil {
			s.missed = map[string]bool{}
		}
		s.missed[query] = true
	}
	return stmt
}

// prepare prepares what was missed. It needs a connection, so it is not called within a transaction. What cannot be
// prepared is run as text, which reports the error.
func (s *statements) prepare(ctx context.Context, db *sql.DB) {
	s.mu.Lock()
	missed := s.missed
	s.missed = nil
	s.mu.Unlock()
	for query := range missed {
		stmt, err := db.PrepareContext(ctx, query)
		if err != nil {
			continue
		}
		s.mu.Lock()
		if s.all == nil {
			s.all = map[string]*sql.Stmt{}
		}
		if s.all[query] == nil {
			s.all[query], stmt = stmt, nil
		}
		s.mu.Unlock()
		if stmt != nil { // another reader was first, and its statement may be in use
			_ = stmt.Close()
		}
	}
}

// close closes all statements.
func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, stmt := range s.all {
		errs = append(errs, stmt.Close())
	}
	s.all, s.missed = nil, nil
	return errors.Join(errs...)
}

// reader is a database whose statements stay prepared.
type reader struct {
	*sql.DB
	known statements
	plain bool // statements are run as text: the connections keep them prepared
}

// openReader opens a database with a number of connections.
func openReader(dsn string, connections int) (*reader, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	return &reader{DB: db}, nil
}

// statement gives a prepared statement, or nil if the text is to be run.
func (r *reader) statement(ctx context.Context, query string) *sql.Stmt {
	if r.plain {
		return nil
	}
	if stmt := r.known.find(query); stmt != nil {
		return stmt
	}
	r.known.prepare(ctx, r.DB)
	return r.known.find(query)
}

// QueryContext is that of [sql.DB].
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if stmt := r.statement(ctx, query); stmt != nil {
		return stmt.QueryContext(ctx, args...)
	}
	return r.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext is that of [sql.DB].
func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if stmt := r.statement(ctx, query); stmt != nil {
		return stmt.QueryRowContext(ctx, args...)
	}
	return r.DB.QueryRowContext(ctx, query, args...)
}

// Close closes the statements and the database.
func (r *reader) Close() error { return errors.Join(r.known.close(), r.DB.Close()) }

// change is a transaction that uses the statements that were prepared before it began.
type change struct {
	*sql.Tx
	known *statements // nil: statements are run as text, which the connection keeps prepared
}

// rows is how many rows a statement inserts at once: as many as a round trip is worth.
func (c *change) rows() int {
	if c.known == nil {
		return 500
	}
	return 1
}

// within returns the context of a statement. In a file a statement is short, and the driver starts a goroutine for each
// statement whose context can end: so such a context ends the transaction between two statements.
func (c *change) within(ctx context.Context) (context.Context, error) {
	if c.known == nil {
		return ctx, nil
	}
	return context.WithoutCancel(ctx), ctx.Err()
}

// ExecContext is that of [sql.Tx].
func (c *change) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	ctx, err := c.within(ctx)
	if err != nil {
		return nil, err
	}
	if stmt := c.known.find(query); stmt != nil {
		return c.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	}
	return c.Tx.ExecContext(ctx, query, args...)
}

// QueryRowContext is that of [sql.Tx].
func (c *change) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if short, err := c.within(ctx); err == nil { // else the row has the error
		ctx = short
	}
	if stmt := c.known.find(query); stmt != nil {
		return c.StmtContext(ctx, stmt).QueryRowContext(ctx, args...)
	}
	return c.Tx.QueryRowContext(ctx, query, args...)
}

// PrepareContext is that of [sql.Tx].
func (c *change) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt := c.known.find(query); stmt != nil {
		return c.StmtContext(ctx, stmt), nil
	}
	return c.Tx.PrepareContext(ctx, query)
}

// begin begins a transaction. The caller has the turn, so the only connection for writing is free.
func (i *Inventory) begin(ctx context.Context) (*change, error) {
	i.known.prepare(ctx, i.write)
	tx, err := i.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &change{Tx: tx, known: &i.known}, nil
}
