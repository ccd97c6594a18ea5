package metrics

import (
	"testing"
	"testing/synctest"
)

// gate is a source whose readings wait until they may end.
type gate struct {
	open            chan struct{} // one value for each reading that may end
	begun, now, max int
}

// read returns the number of the reading.
func (g *gate) read() (int, error) {
	g.begun++
	number := g.begun
	g.now++
	g.max = max(g.max, g.now)
	<-g.open
	g.now--
	return number, nil
}

// TestReadersShareReadings: 20 readers that come during a reading share the next one, which begins after they came.
func TestReadersShareReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		s := share(g.read)
		first := make(chan int, 1)
		later := make(chan int, 20)
		read := func(to chan int) {
			number, err := s.Gather()
			if err != nil {
				t.Error(err)
			}
			to <- number
		}
		go read(first)
		synctest.Wait()
		for range cap(later) {
			go read(later)
		}
		synctest.Wait()
		g.open <- struct{}{}
		synctest.Wait()
		if len(first) != 1 || len(later) != 0 || g.begun != 2 {
			t.Fatalf("after the first reading %d and %d readers have an answer, and %d readings have begun",
				len(first), len(later), g.begun)
		}
		g.open <- struct{}{}
		synctest.Wait()
		if len(later) != cap(later) || g.begun != 2 || g.max != 1 {
			t.Errorf("%d readers have an answer of %d readings, %d at once", len(later), g.begun, g.max)
		}
		if got := <-first; got != 1 {
			t.Errorf("the first reader has reading %d", got)
		}
		for range cap(later) {
			if got := <-later; got != 2 {
				t.Errorf("a later reader has reading %d", got)
			}
		}
		// A reader that comes alone afterwards gets a reading of its own.
		go read(first)
		synctest.Wait()
		g.open <- struct{}{}
		if got := <-first; got != 3 {
			t.Errorf("it got reading %d", got)
		}
	})
}
