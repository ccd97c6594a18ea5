// Package answers has the memory of the results of commits, of which an engine needs one for each transition. A store
// takes it for its answer, and a caller that has copied what it needs returns it. A caller that does not leaves it to
// the garbage collector.
package answers

import (
	"errors"
	"sync"

	"github.com/stagepost/stagepost/job"
)

// one is the result of a commit of one change, and errEnd, which results of other memory do not have.
type one [2]job.Result

var errEnd = errors.New("the end of a result")

var free = sync.Pool{New: func() any { return &one{{}, {Err: errEnd}} }}

// Take returns n empty results.
func Take(n int) []job.Result {
	if n != 1 {
		return make([]job.Result, n)
	}
	return free.Get().(*one)[:1]
}

// Give ends the use of results that Take returned to a store; other results stay with the garbage collector. Neither
// the caller nor a store between the two may use them afterwards. What the records refer to remains valid.
func Give(results []job.Result) {
	if len(results) != 1 || cap(results) != len(one{}) || results[:len(one{})][1].Err != errEnd {
		return
	}
	results[0] = job.Result{}
	free.Put((*one)(results[:cap(results)]))
}
