// Package answers has the memory of the results of commits, of which an engine needs one for each transition, and of
// the records of new jobs. A store takes it for its answer, and a caller that has copied what it needs returns it. A
// caller that does not leaves it to the garbage collector.
package answers

import (
	"bytes"
	"errors"
	"slices"
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

// record is that of one new job, and one with the title recordEnd, which records of other memory do not have.
type record [2]job.Job

const recordEnd = "\x00the end of a record"

var freeRecords = sync.Pool{New: func() any { return &record{{}, {Title: recordEnd}} }}

// TakeRecords is [Take] for n records.
func TakeRecords(n int) []job.Job {
	if n != 1 {
		return make([]job.Job, n)
	}
	return freeRecords.Get().(*record)[:1]
}

// GiveRecords is [Give] for records that TakeRecords returned.
func GiveRecords(jobs []job.Job) {
	if len(jobs) != 1 || cap(jobs) != len(record{}) || jobs[:len(record{})][1].Title != recordEnd {
		return
	}
	jobs[0] = job.Job{}
	freeRecords.Put((*record)(jobs[:cap(jobs)]))
}

// Own makes the records of results the callers' own, as [job.Job.Own]. What a record has in common with the one that
// the caller has is not copied.
func Own(results []job.Result, of []job.Change) {
	for i := range results {
		j, known := &results[i].Job, of[i].Known
		if known == nil {
			j.Own()
			continue
		}
		j.Spec, j.Data = ownBytes(j.Spec, known.Spec), ownBytes(j.Data, known.Data)
		j.Tags, j.Requires = ownTexts(j.Tags, known.Tags), ownTexts(j.Requires, known.Requires)
	}
}

// ownBytes returns known if it is the same as b, else a copy of b.
func ownBytes(b, known []byte) []byte {
	if (b == nil) == (known == nil) && bytes.Equal(b, known) {
		return known
	}
	return slices.Clone(b)
}

// ownTexts is ownBytes for texts.
func ownTexts(texts, known []string) []string {
	if (texts == nil) == (known == nil) && slices.Equal(texts, known) {
		return known
	}
	return slices.Clone(texts)
}
