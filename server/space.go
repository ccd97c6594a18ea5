package server

import "io"

// admitEvery is after how many bytes of an upload the space is checked again: others write at the same time.
const admitEvery = 16 << 20

// admitted is an upload that is refused once its next bytes do not fit beside the reserve.
type admitted struct {
	io.ReadCloser
	storage Storage
	checked int64 // bytes that fit at the last check
	read    int64
	err     error
}

// admitUpload checks the space for an upload of so many bytes, -1 if that is not known, and returns its body, which checks again
// while it is read.
func (s *Server) admitUpload(body io.ReadCloser, bytes int64) (io.ReadCloser, error) {
	if s.Storage == nil {
		return body, nil
	}
	if err := s.Storage.Admit(max(bytes, 0)); err != nil {
		return nil, err
	}
	return &admitted{ReadCloser: body, storage: s.Storage, checked: admitEvery}, nil
}

func (a *admitted) Read(b []byte) (int, error) {
	if a.err == nil && a.read >= a.checked {
		a.err = a.storage.Admit(admitEvery)
		a.checked = a.read + admitEvery
	}
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.ReadCloser.Read(b)
	a.read += int64(n)
	return n, err
}
