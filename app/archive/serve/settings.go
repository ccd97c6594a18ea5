// Package archiveserve opens the archive application in a server.
package archiveserve

import (
	"cmp"
	"path/filepath"
	"time"
)

// ConfigName is the name of the configuration in the data directory.
const ConfigName = "archive.yaml"

// Settings are those of the archive application.
type Settings struct {
	Config     string        `name:"archive.config" for:"serve" doc:"file of sources, storage locations, time-stamp authorities and presets of archives (YAML); defaults to archive.yaml in the data directory. Without the file the server archives nothing"`
	MaxJobs    int           `name:"archive.max_concurrent_jobs" for:"serve" zero:"unlimited" default:"5" doc:"archive jobs that are active at once; unlimited: any number"`
	Tasks      int           `name:"archive.tasks" for:"serve" default:"4" doc:"tasks of one archive job that run at once, such as the archiving of an activity"`
	Phase      time.Duration `name:"archive.phase.timeout" for:"serve" zero:"unlimited" default:"1h" doc:"the longest attempt at a phase of an archive job, such as the archiving of all activities; unlimited: any time"`
	Keep       time.Duration `name:"archive.keep" for:"serve" zero:"unlimited" default:"unlimited" doc:"how long the records of ended archive jobs are kept, which is independent of the archives; unlimited: they are never deleted"`
	PDFWorkers int           `name:"archive.pdf.workers" for:"serve" zero:"off" default:"off" doc:"PDF files of attempts that this server prints at once, with Chromium and Ghostscript in a sandbox; off: it prints none, and content.pdf must be off"`
	PDFRemote  bool          `name:"archive.pdf.remote" for:"serve" doc:"PDF files are printed by stagepost archive pdf-worker on other machines: content.pdf may be on without archive.pdf.workers"`
	QuizListen string        `name:"archive.quizworker.listen" for:"serve" doc:"the address at which this server is the quiz archive worker of Moodles with a quiz archiver plugin; port 0 takes a free one; defaults to none. Beyond loopback it requires token_files of quiz_worker in the file of archive.config"`
}

// File gives the name of the configuration of a data directory.
func (s *Settings) File(data string) string { return cmp.Or(s.Config, filepath.Join(data, ConfigName)) }
