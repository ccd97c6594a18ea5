package inventory

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// counts counts the statements that stay prepared and that were asked for without being prepared.
func (s *statements) counts() (prepared, missed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all), len(s.missed)
}

// TestStatementsStayPrepared: what was run once is not compiled again, neither by readers nor in transactions.
func TestStatementsStayPrepared(t *testing.T) {
	i, err := Open(t.Context(), filepath.Join(t.TempDir(), "inventory.db"), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	pass := func(name string) (written, read int) {
		if err := i.Record(t.Context(), entry("ark:/1/"+name, name, 1), files(2, nil)); err != nil {
			t.Fatal(err)
		}
		if all, err := i.Objects(t.Context(), Query{ARK: "ark:/1/" + name}); err != nil || len(all) != 1 {
			t.Fatalf("control: %v, %v", all, err)
		}
		written, _ = i.known.counts()
		read, _ = i.read.known.counts()
		return written, read
	}
	pass("a")
	written, read := pass("b")
	if written < 5 || read < 3 {
		t.Errorf("%d statements of transactions and %d of readers are prepared", written, read)
	}
	if again, more := pass("c"); again != written || more != read {
		t.Errorf("a repetition prepared %d statements", again+more-written-read)
	}
	if _, missed := i.known.counts(); missed > 0 {
		t.Errorf("a repetition asked for %d statements that are not prepared", missed)
	}
}

// TestStatementsAreBounded: lists that are asked for in many forms, by some at once, do not fill the memory.
func TestStatementsAreBounded(t *testing.T) {
	i, err := Open(t.Context(), filepath.Join(t.TempDir(), "inventory.db"), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for n := range 2 * mostStatements {
				var got int
				query := fmt.Sprintf("SELECT %d", n)
				if err := i.read.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != n {
					t.Errorf("%s gives %d, %v", query, got, err)
				}
			}
		})
	}
	readers.Wait()
	if n, missed := i.read.known.counts(); n+missed > mostStatements {
		t.Errorf("%d statements are kept", n+missed)
	}
}
