package moodle

import "time"

// SetIdle sets for how long a download may stand still.
func (s *Source) SetIdle(d time.Duration) { s.c.idle = d }

// SetStartWait sets for how long the answer to the start of a backup is awaited.
func (s *Source) SetStartWait(d time.Duration) { s.startWait = d }
