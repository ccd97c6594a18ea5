// Package bulk does one thing to many jobs: what an operator could do to each by hand, on all that match a query.
//
//	Request   request.go   which jobs, what to do, why, and how many there must be
//	Preview   preview.go   what the request would meet, with nothing done
//	Pending   step.go      counts; a number other than the expected one fails the bulk before it touched anything
//	Running   step.go      goes through the matches, oldest first, a page at a time
//	Result    result.go    what was done, refused, changed meanwhile
//
// A bulk is a job with a lifecycle of its own, [Life]. It acts through [engine.Engine.Do] with the version that it saw, so that lifecycle, rules
// and audit list judge and keep each act as if a person had done it alone.
//
// The truth about a single job is that job's history: every act carries the bulk's id in its note. The bulk's own record holds the page that it is
// about to do and the tallies of the pages before, saved together. Whoever goes on after a crash looks into the history of each job of that page
// that is not as it was planned, and so neither acts twice nor counts wrongly.
package bulk
