// Package bulk applies one event to many jobs: an operator's action on all jobs that match a query.
//
//	Request   request.go   the jobs, the event, the reason, and the expected number of jobs
//	Preview   preview.go   the effect of a request, without a change
//	Pending   step.go      counts; another number than expected fails the bulk before any change
//	Running   step.go      processes the matches, oldest first, a page at a time
//	Result    result.go    the numbers of jobs done, refused and changed concurrently
//
// A bulk is a job with a lifecycle of its own, [Life]. It acts through [engine.Engine.Do] with the version that it
// read. So lifecycle, rules and audit log apply to each act as if a person had done it alone.
//
// A job's own history is authoritative: every act carries the bulk's id in its note. The bulk's record has the next
// page and the results of the pages before, saved together. After a crash, the next attempt reads the history of each
// job of that page that has changed. So it neither acts twice nor counts wrongly.
package bulk
