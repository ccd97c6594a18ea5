// Package wiretest plays a client and a server of the original job-orchestrator, faults included, for tests of the
// programs that must work with them. The fakes are written from the description of the original alone and share no code
// with package wire, so that a mistake there shows here.
package wiretest
