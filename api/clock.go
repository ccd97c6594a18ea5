package api

import (
	"time"
)

// Clock is what a server knows of the time.
type Clock struct {
	Wall      time.Time  `json:"wall"`                // what its machine says
	Now       time.Time  `json:"now"`                 // what records get
	Trusted   time.Time  `json:"trusted"`             // the true time is not before it; ages are counted by it
	Doubt     string     `json:"doubt,omitempty"`     // ahead, behind or jumped: nothing is removed by its age; empty: nothing speaks against the clock
	Seconds   int64      `json:"seconds,omitempty"`   // how far the clock is off, if there is a doubt
	Confirmed *time.Time `json:"confirmed,omitempty"` // when a person confirmed a clock that had gone forward: what ended before is kept for its full time from then on
	Restart   bool       `json:"restart,omitempty"`   // records get another time than the machine's until the server is started again
}

// ConfirmClock is the body that trusts the clock as it is.
type ConfirmClock struct {
	Note  string `json:"note"` // why; is entered in the audit list
	Actor string `json:"actor,omitempty"`
}
