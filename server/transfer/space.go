package transfer

import "io"

// admitEvery is the number of bytes of an upload after which the space is checked again: others write at the same time.
const admitEvery = 16 << 20

// admitted is an upload that is refused once its next bytes do not fit beside the reserve.
type admitted struct {
	io.ReadCloser
	admit   func(bytes int64) error
	checked int64 // bytes that fit at the last check
	read    int64
	err     error
}

// Admit checks the space for an upload of so many bytes, -1 if that is not known, and returns its body, which checks
// the space again while it is read.
func Admit(admit func(bytes int64) error, body io.ReadCloser, bytes int64) (io.ReadCloser, error) {
	if err := admit(max(bytes, 0)); err != nil {
		return nil, err
	}
	return &admitted{ReadCloser: body, admit: admit, checked: admitEvery}, nil
}

func (a *admitted) Read(b []byte) (int, error) {
	if a.err == nil && a.read >= a.checked {
		a.err = a.admit(admitEvery)
		a.checked = a.read + admitEvery
	}
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.ReadCloser.Read(b)
	a.read += int64(n)
	return n, err
}
