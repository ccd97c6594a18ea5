package postgres

import (
	"testing"
	"time"

	"github.com/stagepost/stagepost/internal/pg"
)

// TestOpenWithLoss cuts a connection at each call while a store is opened: it opens all the same. Controls: without
// patience an opening fails, and a database that cannot be reached is reported at once.
func TestOpenWithLoss(t *testing.T) {
	p := testServer.Proxy(t)
	database := p.Through(newDatabase(t))
	failed := 0
	for at := 1; ; at++ {
		for _, patience := range []time.Duration{-1, 0} {
			p.Arm(at)
			s, err := Open(t.Context(), database, Options{Unsynced: true, Patience: patience})
			calls, cut := p.Calls()
			p.Arm(0)
			switch {
			case err == nil:
				closeStore(t, s)
			case patience < 0:
				failed++
			default:
				t.Errorf("call %d, %s: %v", at, cut, err)
			}
			if calls < at {
				if at < 20 || failed < 10 {
					t.Errorf("control: %d calls, %d openings without patience failed", at, failed)
				}
				began := time.Now()
				_, err := Open(t.Context(), "host="+t.TempDir()+" dbname=none", Options{})
				if !pg.Temporary(err) || time.Since(began) > 20*time.Second {
					t.Errorf("a database that cannot be reached: %v after %v", err, time.Since(began))
				}
				return
			}
		}
	}
}
