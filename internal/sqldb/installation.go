package sqldb

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/internal/headfile"
)

// Identify returns the installation that a database belongs to, and the number of its entries. Both are in the one row
// of its table meta. A new database gets this row, with the installation want, or with a random id if want is empty. A
// database of another installation than want is refused: with [ErrForeign], and a file with [headfile.ErrForeign].
func (s *Side) Identify(ctx context.Context, want string) (installation string, sequence int64, err error) {
	fresh := want
	if fresh == "" {
		fresh = strings.ToLower(rand.Text())
	}
	err = s.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO meta VALUES (1, ?, 0) ON CONFLICT DO NOTHING", fresh)
		if err != nil {
			return err
		}
		row := tx.QueryRowContext(ctx, "SELECT installation, sequence FROM meta")
		if err := row.Scan(&installation, &sequence); err != nil {
			return err
		}
		if want != "" && want != installation {
			foreign := headfile.ErrForeign
			if s.Postgres {
				foreign = ErrForeign
			}
			return fmt.Errorf("%w: its id is %s, and that of this one is %s", foreign, installation, want)
		}
		return nil
	})
	return installation, sequence, err
}

// Migrate copies all of a database into an empty one of the same installation, as [Copy] does. With replace it replaces
// what the other one has, of any installation. The name of the database begins its errors.
func Migrate(ctx context.Context, name string, from, to Side, tables Tables, replace bool) (Copied, error) {
	if !replace && from.Installation != to.Installation {
		return Copied{}, fmt.Errorf("%s: %w: its id is %s, and that of the other one is %s", name, ErrForeign,
			to.Installation, from.Installation)
	}
	tables.Replace = replace
	c, err := Copy(ctx, from, to, tables)
	if err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	if to.Head == nil {
		return c, nil
	}
	var sequence int64
	if err := to.Read.QueryRowContext(ctx, "SELECT sequence FROM meta").Scan(&sequence); err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	to.Head.Note(sequence)
	return c, nil
}
