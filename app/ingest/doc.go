// Package ingest takes what depositors hand in and brings it into storage: a batch makes one job of each object, and a job goes from
// Pending to Completed through the phases of [JobLife], one file of this package for each.
//
//	Submit      submission.go, payload.go   the payload is staged and on disk before the batch exists
//	batch       batch.go, rows.go           read the payload, make the jobs, wait for them, report
//	Pending     begin.go                    the payload's digest, the object's manifest
//	Estimating  estimate.go                 sizes by HEAD
//	Provisioning provision.go, room.go      room on the disk, by a gate
//	Downloading download.go                 files, four at a time
//	Processing  process.go, container.go, identify.go, describe.go
//	Storing     store.go                    an OCFL version in every storage location, read back
//	Recording   record.go                   package inventory
//	Notify      notify.go                   the callback
//	Reporting   report.go, mail.go          what the report says, in which words and forms, is in the folder report
//
// The job record says where a job stands. What it works on lies in work/<batch>/<job>/: producer/ holds the depositor's files, system/
// what Stagepost adds and the lists of files, which are never in the record. A job's directory belongs to the attempt that has its lock
// and the newest epoch. Storage and inventory are keyed by the job, so that doing a phase again changes nothing.
//
// One difference from Merritt is deliberate: the manifests and containers that the rows of a batch name are fetched by the jobs, not by the
// batch, so that a row which cannot be fetched fails one object and not all.
package ingest
