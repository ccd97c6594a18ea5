package engine

import "time"

// BlockStorage is the code of a blocker of every job: the server's storage accepts no writes.
const BlockStorage = "storage"

// Impairment keeps the whole server from working, such as a full disk.
type Impairment struct {
	Since time.Time
	Err   error // its text is the sentence of the blocker
}

// whyImpaired adds what keeps every job of the server from moving.
func (e *Engine) whyImpaired(x *Explanation) {
	if e.options.Impaired == nil {
		return
	}
	in := e.options.Impaired()
	if in == nil {
		x.Not = append(x.Not, "the server's storage accepts writes")
		return
	}
	x.Blockers = append(x.Blockers, Blocker{
		Code: BlockStorage, Since: in.Since, Holder: "the storage of the server", Sentence: in.Err.Error(),
		Remedy: "stagepost health shows the state of the server; free or repair its storage",
	})
}
