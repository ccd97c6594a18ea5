// Package report writes reports about batches for people: as text, as HTML, as tables and as the body of a mail, in
// plain words and with what there is to do. Everything here follows from a [Batch] or a [Queued] alone.
//
//	Batch, Job   batch.go      what is reported, and the digest by which a report is recognized
//	Changes      changes.go    what is new since the report before
//	the words    words.go      what happened, why, and who can help; state.go
//	the forms    text.go, html.go (templates/mail.html), csv.go
//	the mails    body.go, queued.go
//
// Package ingest makes a Batch of the records, calls Conclude, Since and Explain in this order, keeps it as a file and
// sends the mail.
package report
