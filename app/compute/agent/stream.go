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

func openStream(name string) (*stream, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &stream{file: f, more: make(chan struct{})}, nil
}

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

// Close ends the stream: those who follow it come to its end.
func (s *stream) Close() error {
	s.mu.Lock()
	if !s.ended {
		s.ended = true
		close(s.more)
	}
	s.mu.Unlock()
	return s.file.Close()
}

// grows gives a channel that is closed when there is more, and whether the stream has ended.
func (s *stream) grows() (<-chan struct{}, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.more, s.ended
}
