package recent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestRecent: a page waits for a quick search, gets the result before while a long one is in progress, and a long one
// is not repeated at once.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[int]()
		searches, takes := 0, time.Duration(0)
		var fails error
		search := func(ctx context.Context) (int, error) {
			searches++
			n := searches
			select {
			case <-time.After(takes):
				return n, fails
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		expect := func(when string, found, made int, wrong bool) {
			t.Helper()
			got, err := c.Get(t.Context(), search)
			if got != found || searches != made || (err != nil) != wrong {
				t.Errorf("%s: got the result of search %d of %d, %v", when, got, searches, err)
			}
		}
		expect("a quick search", 1, 1, false)
		takes = 10 * time.Second
		expect("a long search: the result before", 1, 2, false)
		expect("while it is in progress", 1, 2, false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		expect("it has ended", 2, 2, false)
		time.Sleep(90 * time.Second)
		expect("it is not repeated yet", 2, 2, false)
		time.Sleep(11 * time.Second)
		expect("it is repeated", 2, 3, false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		takes, fails = 0, errors.New("the store is away")
		time.Sleep(101 * time.Second)
		expect("it fails", 3, 4, true)
		takes, fails = time.Hour, nil
		expect("a search that the end of the server ends", 3, 5, true)
		c.Close()
		expect("after the end", 3, 5, true)
	})
}
