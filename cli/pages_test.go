package cli

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/spf13/cobra"
)

// selected runs a command with the flags of pages, and gives what they select.
func selected(mode string, args ...string) (p Pages, err error) {
	c := &Call{Out: &Printer{Writer: new(bytes.Buffer), Mode: mode}}
	cmd := &cobra.Command{Use: "list", SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.CheckPages(cmd, &p) }}
	p.Bind(cmd, 50)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return p, err
}

// TestLimitOfAList: a limit is 1 to 1000, also with --all, and a refusal is a usage error.
func TestLimitOfAList(t *testing.T) {
	for limit, good := range map[int]bool{-1: false, 0: false, 1: true, 1000: true, 1001: false} {
		for _, more := range []string{"--all=false", "--all"} {
			_, err := selected(ModeTable, "--limit", strconv.Itoa(limit), more)
			switch {
			case good && err != nil:
				t.Errorf("--limit %d %s: got %v", limit, more, err)
			case !good && (!errors.As(err, new(UsageError)) ||
				err.Error() != "--limit must be 1 to 1000; --all gives everything"):
				t.Errorf("--limit %d %s: got %v", limit, more, err)
			}
		}
		err := CheckLimit("--last", limit)
		if good && err != nil || !good && (!errors.As(err, new(UsageError)) ||
			err.Error() != "--last must be 1 to 1000") {
			t.Errorf("--last %d: got %v", limit, err)
		}
	}
}

// TestWhoGetsTheWholeList: a terminal gets it with --all, a pipe and JSON unless a limit was given.
func TestWhoGetsTheWholeList(t *testing.T) {
	for _, x := range []struct {
		mode string
		args []string
		want Pages
	}{
		{ModeTable, nil, Pages{50, false}},
		{ModeTable, []string{"--all"}, Pages{50, true}},
		{ModePlain, nil, Pages{50, true}},
		{ModeJSON, nil, Pages{50, true}},
		{ModePlain, []string{"--limit", "50"}, Pages{50, false}},
		{ModeJSON, []string{"--limit", "7"}, Pages{7, false}},
		{ModeJSON, []string{"--limit", "7", "--all"}, Pages{7, true}},
	} {
		if got, err := selected(x.mode, x.args...); err != nil || got != x.want {
			t.Errorf("%s %v: got %+v, %v, want %+v", x.mode, x.args, got, err, x.want)
		}
	}
}

// paged serves rows 0 to n-1, at most most a page, and notes the requests. It fails for the page that begins with the
// row fail.
type paged struct {
	n, most, fail int
	asked         []int // the limits
	after         func()
}

var errPage = errors.New("no such page")

func (s *paged) fetch(after string, limit int) (rows []int, next string, err error) {
	s.asked = append(s.asked, limit)
	from := 0
	if after != "" {
		if from, err = strconv.Atoi(after); err != nil {
			return nil, "", err
		}
	}
	if s.fail > 0 && from == s.fail {
		return nil, "", errPage
	}
	to := min(from+limit, from+s.most, s.n)
	for i := from; i < to; i++ {
		rows = append(rows, i)
	}
	if to < s.n {
		next = strconv.Itoa(to)
	}
	if s.after != nil {
		s.after()
	}
	return rows, next, nil
}

// TestPagesOfAList: each row comes once and in order, no page is fetched that is not needed, and a list that is cut
// short is reported as such. A server that gives short pages is asked for the rest.
func TestPagesOfAList(t *testing.T) {
	for name, x := range map[string]struct {
		pages Pages
		serve paged
		rows  int
		more  bool
		asked []int
	}{
		"empty":             {Pages{50, false}, paged{n: 0, most: 1000}, 0, false, []int{50}},
		"one":               {Pages{1, false}, paged{n: 3, most: 1000}, 1, true, []int{1}},
		"the last":          {Pages{3, false}, paged{n: 3, most: 1000}, 3, false, []int{3}},
		"a thousand":        {Pages{1000, false}, paged{n: 2500, most: 1000}, 1000, true, []int{1000}},
		"short pages":       {Pages{250, false}, paged{n: 2500, most: 100}, 250, true, []int{250, 150, 50}},
		"all, three pages":  {Pages{7, true}, paged{n: 2500, most: 1000}, 2500, false, []int{1000, 1000, 1000}},
		"all, short pages":  {Pages{7, true}, paged{n: 250, most: 100}, 250, false, []int{1000, 1000, 1000}},
		"all, without more": {Pages{7, true}, paged{n: 1000, most: 1000}, 1000, false, []int{1000}},
	} {
		rows, more, err := Collect(t.Context(), x.pages, x.serve.fetch)
		if err != nil || len(rows) != x.rows || more != x.more || rows == nil {
			t.Errorf("%s: got %d rows, more %t, %v; want %d, %t", name, len(rows), more, err, x.rows, x.more)
		}
		for i, row := range rows {
			if row != i {
				t.Fatalf("%s: row %d is %d", name, i, row)
			}
		}
		if !slices.Equal(x.serve.asked, x.asked) {
			t.Errorf("%s: it asked for %v, want %v", name, x.serve.asked, x.asked)
		}
	}
}

// TestNoListWithoutAPage: if a later page fails, nothing is printed, not even the rows before it.
func TestNoListWithoutAPage(t *testing.T) {
	serve := paged{n: 2500, most: 1000, fail: 1000}
	err := ListPages(t.Context(), Pages{All: true}, serve.fetch, func(rows []int, _ bool) error {
		t.Errorf("%d rows are printed", len(rows))
		return nil
	})
	if !errors.Is(err, errPage) || len(serve.asked) != 2 {
		t.Errorf("got %v after %d pages", err, len(serve.asked))
	}
	serve = paged{n: 3, most: 2} // the control
	if err := ListPages(t.Context(), Pages{All: true}, serve.fetch, func(rows []int, more bool) error {
		if len(rows) != 3 || more {
			t.Errorf("got %v, more %t", rows, more)
		}
		return errPage
	}); !errors.Is(err, errPage) {
		t.Errorf("the error of printing is lost: %v", err)
	}
}

// TestListEndsWithItsContext: no page is fetched after the end of the context, and its cause is the error.
func TestListEndsWithItsContext(t *testing.T) {
	for pages := range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		serve := paged{n: 2500, most: 1000}
		if pages == 0 {
			cancel(ErrTimeout)
		}
		serve.after = func() {
			if len(serve.asked) == pages {
				cancel(ErrTimeout)
			}
		}
		rows, more, err := Collect(ctx, Pages{All: true}, serve.fetch)
		if !errors.Is(err, ErrTimeout) || rows != nil || more || len(serve.asked) != pages {
			t.Errorf("ended after %d pages: got %d rows, %v after %d", pages, len(rows), err, len(serve.asked))
		}
		cancel(nil)
	}
}

// TestMoreIsForPeople: the line below a cut table stands on a terminal only.
func TestMoreIsForPeople(t *testing.T) {
	for _, mode := range []string{ModeTable, ModePlain, ModeJSON} {
		for _, more := range []bool{false, true} {
			var b bytes.Buffer
			(&Printer{Writer: &b, Mode: mode}).More(7, more)
			want := ""
			if mode == ModeTable && more {
				want = "7 shown, and more exist: --all shows all, --limit N up to 1000\n"
			}
			if b.String() != want {
				t.Errorf("%s, %t: got %q", mode, more, &b)
			}
		}
	}
}
