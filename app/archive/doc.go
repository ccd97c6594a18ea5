// Package archive makes archives: it reads activities of a course, makes a package of what it read, stores the package
// in several storage locations, and has it time-stamped. docs/archive.md is for its users, [JobLife] the lifecycle of a
// job, [TaskLife] that of its tasks.
//
//	a request          request.go           plan.go answers what it would archive, and starts nothing
//	PreProcessing      extract.go           the source is read, and the tasks are planned
//	ActivityArchiving  extract.go, pdf.go   one task for each activity
//	BackupCollection   backup.go            backups that the source has made
//	PostProcessing     process.go           every file is checked, and the package is made
//	Store              store.go, objects.go one task for each file and location; versions of OCFL objects
//	Signing            store.go             a time stamp of the package
//	Error              phase.go             the decision to try the phase again
//	ErrorHandling      store.go             what must not remain is reverted
//	Cleanup            store.go, delete.go  temporary files, and the backups in the source
//
// phase.go has what all phases share, tasks.go runs the tasks of one, events.go announces changes.
//
// Packages below have what needs no attempt at a job: source (what is read), workdir (working directories), packaging,
// catalog (the index of all archives), copies (storage locations), sign (time stamps), audit (fixity checks), custody
// (archives after they were made) and notify. Three packages have jobs of kinds of their own: pdf, trigger (runs of
// schedules) and quizworker.
package archive
