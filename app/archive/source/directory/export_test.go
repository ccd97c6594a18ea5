package directory

import "io"

// OnRead calls f before each read of a file. If f reports true, the read gives half of the bytes and an error.
func (s *Source) OnRead(f func(name string) bool, err error) {
	inner := s.open
	s.open = func(name string) (file, error) {
		opened, e := inner(name)
		if e != nil {
			return nil, e
		}
		return &faulty{file: opened, fails: func() bool { return f(name) }, err: err}, nil
	}
}

type faulty struct {
	file
	fails func() bool
	err   error
}

func (f *faulty) Read(p []byte) (int, error) {
	if f.fails() {
		n, _ := io.ReadFull(f.file, p[:min(len(p), 3)])
		return n, f.err
	}
	return f.file.Read(p)
}
