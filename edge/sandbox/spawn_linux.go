package sandbox

import "runtime"

// spawner starts processes, all from one thread that lives as long as the sandbox: the kernel sends a child its death
// signal when the thread that began it ends, and Go ends threads as it likes.
type spawner struct {
	work chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread()
		for f := range s.work {
			f()
		}
	}()
	return s
}

// do runs f there and waits for it.
func (s *spawner) do(f func()) {
	over := make(chan struct{})
	s.work <- func() {
		defer close(over)
		f()
	}
	<-over
}

// close ends the thread; no process that it began may be left.
func (s *spawner) close() {
	close(s.work)
	<-s.done
}
