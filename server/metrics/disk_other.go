//go:build !unix

package metrics

import "errors"

// diskSpace cannot be asked here.
func diskSpace(string) (free, total int64, err error) {
	return 0, 0, errors.ErrUnsupported
}
