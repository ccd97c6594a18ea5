package agent

import (
	"os"
	"sync"
)

// stream is a file that a payload's output goes to, and those who follow it.
type stream struct {
	file *os.File

	mu    sync.Mutex    // guards the rest
	more  chan struct{} // closed and made anew at each write
	ended bool
}

// newStream gives the stream to a file, which stays open when the stream ends.
func newStream(f *os.File) *stream { return &stream{file: f, more: make(chan struct{})} }

// Write is part of io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		close(s.more)
		s.more = make(chan struct{})
	}
	return n, err
}

// end ends the stream: those who follow it come to its end.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.more)
	}
}

// grows gives a channel that is closed when there is more, and whether the stream has ended.
func (s *stream) grows() (<-chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.more, s.ended
}
