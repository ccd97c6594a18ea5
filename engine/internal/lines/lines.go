// Package lines has the contract about numbered log lines between the engine and package joblog.
package lines

import "github.com/stagepost/stagepost/job"

// Number is the attribute of a log line that has the number which its worker assigned.
const Number = "line"

// Numbered is implemented by job logs that can be read: LastLine returns the highest number of the lines that were
// logged under a claim.
type Numbered interface {
	LastLine(id job.ID, epoch int64) int64
}
