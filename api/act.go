package api

// Act is the body of an event that a person causes.
type Act struct {
	As      string `json:"as,omitempty"`      // "operator" (default) or "owner"
	Actor   string `json:"actor,omitempty"`   // who
	Note    string `json:"note,omitempty"`    // why
	Version int64  `json:"version,omitempty"` // of the record the person saw; 0: whatever it is now
	Confirm bool   `json:"confirm,omitempty"` // the person accepts what the event loses
	Now     bool   `json:"now,omitempty"`     // cancel and stop of a flow: running tasks are interrupted
}

// Priority is the body of a change of priority.
type Priority struct {
	Priority *int   `json:"priority"` // 0..99, lower goes first
	Version  int64  `json:"version,omitempty"`
	Actor    string `json:"actor,omitempty"` // who
	Note     string `json:"note,omitempty"`  // why
}
