package serviceconfig

import (
	"time"

	"github.com/stagepost/stagepost/quantity"
)

// Size is a number of bytes: 512MiB, 2GB, 1024.
type Size int64

// UnmarshalText is part of encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := quantity.ParseBytes(string(text))
	*s = Size(n)
	return err
}

// Duration is a time: 90s, 2h, 7d.
type Duration struct{ time.Duration }

// UnmarshalText is part of encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = quantity.ParseDuration(string(text))
	return err
}
