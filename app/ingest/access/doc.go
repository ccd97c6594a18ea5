// Package access gives stored objects back: a request for an object, a version or a list of files becomes a job of the
// kind ingest.access, and the job makes a package of it, a ZIP, a TAR or a bag (RFC 8493) in either.
//
//	Request     request.go    the object is looked up; the job is in the small or the large queue and has a token
//	Pending                   waits for a worker of its queue
//	Processing  assemble.go   reads every file once, from any location that has it whole, and writes the plan
//	            bag.go        the tag files of a bag
//	Status      status.go     how far it is, by the token
//	Open        content.go    the package itself, to be read from any byte on
//	sweep.go                  the plans of deleted jobs go
//
// A package is a plan (package pack), not a copy: access/<job>/plan/ holds headers and checksums, and the content is
// read from storage when it is fetched. A file that was whole when the plan was made may have changed since;
// reading notices, and breaks off rather than giving other bytes.
//
// The token is what gives access to a package: its first half finds the job, its second is 128 bits that only the key
// of the data directory gives.
package access
