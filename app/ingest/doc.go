// Package ingest stores what depositors submit: a batch makes one job of each object, and a job goes from Pending to
// Completed through the phases of [record.JobLife], one file of this package for each.
//
//	Submit       submission.go       the payload is staged and on disk before the batch exists
//	batch        batch.go            read the payload, make the jobs, wait for them, report
//	Pending      begin.go            the payload's digest, the object's manifest
//	Estimating   estimate.go         sizes by HEAD
//	Provisioning space.go            free space on the disk, by a gate
//	Downloading  download.go         files, four at a time; sources.go bounds the requests to a host
//	Processing   process.go, identify.go, metadata.go
//	Storing      store.go            an OCFL version in every storage location, read back
//	Recording    objects.go          package inventory
//	Notify       callback.go         the callback
//	Reporting    report.go, mail.go  the contents of the report are in package report
//
// Packages below have what needs no attempt at a job: record (lifecycles, specs and data), workdir (work directories
// and the trash), location (storage locations), inventory, profile, report, fixity, fsck and orphans.
//
// The job record has the position of a job. Its files are in work/<batch>/<job>/: producer/ holds the depositor's
// files, system/ the files that Stagepost adds and the lists of files, which are never in the record. Storage and
// inventory are keyed by the job, so that a repeated phase changes nothing.
//
// One difference from Merritt is deliberate: the manifests and containers that the rows of a batch name are fetched by
// the jobs, not by the batch, so that a row which cannot be fetched fails one object and not all.
package ingest
