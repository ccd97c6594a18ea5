package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// maxPage is the largest number of rows of a page, and of --limit.
const maxPage = 1000

// Pages are the flags of a command that lists rows page by page.
type Pages struct {
	Limit int  // --limit: the number of rows at most, 1 to 1000
	All   bool // --all: all rows, whatever Limit is
}

// Fetch gives one page: at most limit rows that follow the cursor after, and the cursor of the next page. The cursor is
// empty for the first page, and after the last one. A page may have fewer rows than limit, and still a next one.
type Fetch[T any] func(after string, limit int) (rows []T, next string, err error)

// Bind adds the flags. limit is the default of --limit.
func (p *Pages) Bind(cmd *cobra.Command, limit int) {
	f := cmd.Flags()
	f.IntVar(&p.Limit, "limit", limit, "at most so many, up to 1000; without it a pipe and -o json get all")
	f.BoolVar(&p.All, "all", false, "all of them, page by page")
}

// CheckPages refuses a limit that is out of range. It sets All if the list is printed as a whole without --all.
func (c *Call) CheckPages(cmd *cobra.Command, p *Pages) error {
	p.All = p.All || c.WantsAll(cmd)
	return checkLimit("--limit", p.Limit, "; --all gives everything")
}

// CheckLimit refuses a number of rows that is out of range, for a flag such as --last of a list without pages.
func CheckLimit(flag string, limit int) error { return checkLimit(flag, limit, "") }

func checkLimit(flag string, limit int, hint string) error {
	if limit < 1 || limit > maxPage {
		return Usagef("%s must be 1 to %d%s", flag, maxPage, hint)
	}
	return nil
}

// WantsAll reports whether a list is printed as a whole without --all: a program reads it, and no limit was given.
func (c *Call) WantsAll(cmd *cobra.Command) bool {
	return c.Out.Mode != ModeTable && !cmd.Flags().Changed("limit")
}

// Collect fetches pages until it has as many rows as p selects, and reports whether more rows exist. rows is never nil,
// so that JSON has an empty list. When ctx ends, no further page is fetched.
func Collect[T any](ctx context.Context, p Pages, fetch Fetch[T]) (rows []T, more bool, err error) {
	rows = []T{}
	for after := ""; ; {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		limit := maxPage
		if !p.All {
			limit = p.Limit - len(rows)
		}
		page, next, err := fetch(after, limit)
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, page...)
		if next == "" || !p.All && len(rows) >= p.Limit {
			return rows, next != "", nil
		}
		after = next
	}
}

// ListPages fetches the rows that p selects as [Collect] does, and prints them; more reports whether more rows exist.
func ListPages[T any](ctx context.Context, p Pages, fetch Fetch[T], print func(rows []T, more bool) error) error {
	rows, more, err := Collect(ctx, p, fetch)
	if err != nil {
		return err
	}
	return print(rows, more)
}

// More prints below a table of n rows that more rows exist, if they do. A program gets no such line.
func (p *Printer) More(n int, more bool) {
	if more && p.Mode == ModeTable {
		p.Line("%s", ShownOf(n))
	}
}
