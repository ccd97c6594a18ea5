package sqlite

import (
	"sync/atomic"

	"github.com/stagepost/stagepost/internal/conn"
)

// Checkpoints copy the log into the database. A separate connection copies most of it concurrently with the loop. The
// loop only copies the rest, so that the log can restart and does not grow without limit.
const (
	manyFrames = 2000  // pages in the log: begin to copy (8 MB); the default of Options
	maxFrames  = 32000 // the loop copies itself, whatever it takes (128 MB)
)

type checkpointer struct {
	c       *conn.Conn
	begin   chan struct{}
	stopped chan struct{}
	state   atomic.Int32 // resting, copying, copied
	err     error        // of the last copy; read when copied
}

const (
	resting = iota
	copying
	copied
)

func startCheckpointer(c *conn.Conn) *checkpointer {
	p := &checkpointer{c: c, begin: make(chan struct{}, 1), stopped: make(chan struct{})}
	go func() {
		defer close(p.stopped)
		for range p.begin {
			_, p.err = p.c.Checkpoint()
			p.state.Store(copied)
		}
	}()
	return p
}

func (p *checkpointer) close() error {
	close(p.begin)
	<-p.stopped
	return p.c.Close()
}

// checkpoint is called by the loop after every transaction.
func (s *Store) checkpoint() {
	frames := s.records.c.Frames()
	p := s.checkpoints
	switch p.state.Load() {
	case resting:
		if frames >= s.options.frames {
			p.state.Store(copying)
			p.begin <- struct{}{}
		}
	case copied:
		p.state.Store(resting)
		s.checkpointed(p.err)
		s.copyRest()
	case copying:
		if frames >= maxFrames {
			s.copyRest()
		}
	}
}

func (s *Store) copyRest() {
	_, err := s.records.c.Checkpoint()
	s.checkpointed(err)
}

// checkpointed handles the result of a checkpoint. A full or busy disk is harmless: the log keeps everything, and the
// next checkpoint retries.
func (s *Store) checkpointed(err error) {
	if f := conn.FaultOf(err); err != nil && f != conn.Full && f != conn.Busy {
		s.stop(err)
	}
}
