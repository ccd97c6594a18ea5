// Package joblog keeps what steps log in files, one per job, so that a log outlives its worker and its process.
//
//	DIR/<last two characters of the id>/<id>.log
//
// A file holds one JSON object per line: time, level, msg, epoch, state and attrs. Line breaks inside a text are
// escaped, so that a text cannot forge a line (check S18). Files are only appended to. When a log has reached its size,
// a marker line ends it.
package joblog
