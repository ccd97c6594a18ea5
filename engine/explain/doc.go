// Package explain explains what a job waits for, which jobs are stuck, and how long jobs usually stay in a
// state. It reads an engine and its store, and changes nothing.
package explain
