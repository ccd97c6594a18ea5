package web

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/api"
)

// TestRecent: a page waits for a quick search, gets the result before while a long one is in progress, and a long one
// is not repeated at once.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRecent()
		searches, takes := 0, time.Duration(0)
		var fails error
		search := func(ctx context.Context) (attention, error) {
			searches++
			n := searches
			select {
			case <-time.After(takes):
				return attention{At: time.Now(), Stuck: api.Stuck{Found: n}}, fails
			case <-ctx.Done():
				return attention{}, ctx.Err()
			}
		}
		expect := func(when string, found, made int, wrong bool) {
			t.Helper()
			got, err := c.get(t.Context(), search)
			if got.Stuck.Found != found || searches != made || (err != nil) != wrong {
				t.Errorf("%s: got the result of search %d of %d, %v", when, got.Stuck.Found, searches, err)
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
		c.close()
		expect("after the end", 3, 5, true)
	})
}
