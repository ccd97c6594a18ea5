package moodle

import "time"

// SetIdle sets for how long a download may stand still.
func (s *Source) SetIdle(d time.Duration) { s.c.idle = d }
