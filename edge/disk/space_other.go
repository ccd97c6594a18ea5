//go:build !unix

package disk

import "errors"

// Space is not known on this system.
func Space(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }
