package engine

import "time"

// Impairment keeps the whole server from working, such as a full disk.
type Impairment struct {
	Since time.Time
	Err   error // its text is the sentence of the blocker
}

// Impairment returns what keeps the whole server from working, or nil. checked is false if the engine has nothing to
// ask ([Options.Impaired]).
func (e *Engine) Impairment() (in *Impairment, checked bool) {
	if e.options.Impaired == nil {
		return nil, false
	}
	return e.options.Impaired(), true
}
