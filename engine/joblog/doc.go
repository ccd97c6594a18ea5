// Package joblog keeps what steps log in files, one per job, so that a log outlives its worker and its process.
//
//	DIR/<last two characters of the id>/<id>.log
//
// A file holds one JSON object per line: time, level, msg, epoch, state and attrs. Line breaks inside a text are
// escaped, so that no one can forge a line (check S18). Files are only appended to. A job's log ends with a marker line
// when it has reached its size.
package joblog
