package api

import (
	"time"
)

// Clock is the time of a server, and whether the server trusts it.
type Clock struct {
	Wall    time.Time `json:"wall"`    // of its machine
	Now     time.Time `json:"now"`     // what records get
	Trusted time.Time `json:"trusted"` // the true time is not before it; ages are counted by it
	// ahead, behind or jumped: nothing is removed by its age; empty: nothing speaks against the clock
	Doubt   string `json:"doubt,omitempty"`
	Seconds int64  `json:"seconds,omitempty"` // how far the clock is off, if there is a doubt
	// when a person confirmed a clock that had gone forward: what ended before is kept for its full time from then on
	Confirmed *time.Time `json:"confirmed,omitempty"`
	// records get another time than the machine's until the server is started again
	Restart bool `json:"restart,omitempty"`
}

// ConfirmClock is the body that trusts the clock as it is.
type ConfirmClock struct {
	Note  string `json:"note"` // why; is entered in the audit log
	Actor string `json:"actor,omitempty"`
}
