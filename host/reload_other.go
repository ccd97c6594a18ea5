//go:build !unix

package host

import "os"

// ReloadSignals: there are none here. No signal at all would mean every signal, so one that cannot come stands for
// none.
var ReloadSignals = []os.Signal{unsent{}}

type unsent struct{}

func (unsent) String() string { return "unsent" }
func (unsent) Signal()        {}
