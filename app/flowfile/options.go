package flowfile

import (
	"time"

	"github.com/stagepost/stagepost/app/flowfile/process"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/flow"
)

// Options state what files may do. With the zero Options they may wait and sleep, nothing else.
type Options struct {
	Commands  bool              // files may run commands, as the user that the program runs as
	Commander process.Commander // runs them; defaults to [Local]
	Dir       string            // what a relative dir of a task is below; defaults to none: dir must be absolute then
	Path      string            // where commands search for programs; defaults to /usr/local/bin:/usr/bin:/bin

	HTTP        *fetch.Client // files may send requests, within the client's policy; nil: they may not
	HTTPTimeout time.Duration // of one request; defaults to 60 s

	Go map[string]Func // functions that files may name

	any bool // lint: nothing is off, and functions are not looked up
}

// Func is a function that files may name with go.
type Func struct {
	Execute  flow.Do
	Revert   flow.Do  // of tasks that name no other; nil takes nothing back
	Requires []string // arguments that every task with it has, besides its own

	Signals []flow.AnySignal // that Execute waits for
}

func (o Options) withDefaults() Options {
	if o.Path == "" {
		o.Path = "/usr/local/bin:/usr/bin:/bin"
	}
	if o.HTTPTimeout <= 0 {
		o.HTTPTimeout = time.Minute
	}
	if o.Commander == nil {
		o.Commander = process.Local{}
	}
	return o
}
