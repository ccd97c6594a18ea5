package sqldbtest

import (
	"database/sql"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// verb is how a statement begins.
var verb = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\s`)

// Statements are the statements in the Go files of the present directory: the constant texts that begin as one.
// dynamic are the first words of those that are put together when they run.
func Statements(t *testing.T) (all, dynamic []string) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	f := finder{constants: map[string]ast.Expr{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		f.files = append(f.files, file)
	}
	for _, file := range f.files {
		ast.Inspect(file, f.constant)
	}
	for _, file := range f.files {
		ast.Inspect(file, f.statement)
	}
	return f.found, f.dynamic
}

// finder finds statements.
type finder struct {
	files          []*ast.File
	constants      map[string]ast.Expr // by name; of those with one name, the last
	found, dynamic []string
}

func (f *finder) constant(n ast.Node) bool {
	if s, ok := n.(*ast.ValueSpec); ok && len(s.Values) == len(s.Names) {
		for i, name := range s.Names {
			f.constants[name.Name] = s.Values[i]
		}
	}
	return true
}

// statement takes the longest constant text that begins as a statement.
func (f *finder) statement(n ast.Node) bool {
	e, ok := n.(ast.Expr)
	if !ok {
		return true
	}
	text, whole := f.text(e)
	if !verb.MatchString(text) {
		return true
	}
	switch {
	case !whole:
		f.dynamic = append(f.dynamic, strings.Join(strings.Fields(text)[:2], " "))
	case !slices.Contains(f.found, text):
		f.found = append(f.found, text)
	}
	return false
}

// text is the text of an expression, or its beginning.
func (f *finder) text(e ast.Expr) (text string, whole bool) {
	switch x := e.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			text, err := strconv.Unquote(x.Value)
			return text, err == nil
		}
	case *ast.ParenExpr:
		return f.text(x.X)
	case *ast.Ident:
		if c := f.constants[x.Name]; c != nil {
			return f.text(c)
		}
	case *ast.BinaryExpr:
		if x.Op == token.ADD {
			a, whole := f.text(x.X)
			if !whole {
				return a, false
			}
			b, whole := f.text(x.Y)
			return a + b, whole
		}
	}
	return "", false
}

// mostParameters is how many parameters a statement has at most.
const mostParameters = 60

// Understood requires that PostgreSQL can prepare statements: there are the tables, the columns, and a type for each
// parameter. They run without values, and are rolled back.
func Understood(t *testing.T, db *sql.DB, statements []string) {
	t.Helper()
	for _, one := range statements {
		if err := prepared(t, db, one); err != nil {
			t.Errorf("%s\n\t%v", one, err)
		}
	}
}

// prepared is why a statement cannot be prepared.
func prepared(t *testing.T, db *sql.DB, statement string) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), statement, make([]any, mostParameters)...)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !strings.HasPrefix(refused.Code, "42") {
		return nil // of the values, which are all missing
	}
	return err
}

// Control requires that [Understood] would find a statement whose parameter has two types.
func Control(t *testing.T, db *sql.DB, statement, state string) {
	t.Helper()
	var refused *pgconn.PgError
	if err := prepared(t, db, statement); !errors.As(err, &refused) || refused.Code != state {
		t.Errorf("control: %v, want SQLSTATE %s", err, state)
	}
}
