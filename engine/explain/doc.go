// Package explain answers why a job stands where it does, which jobs are stuck, and how long jobs usually stay in a
// state. It reads an engine and its store, and changes nothing.
package explain
