package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// ArchiveContent chooses what is fetched of an activity, and how it is named.
type ArchiveContent struct {
	Sections   []string `json:"sections,omitempty" doc:"Parts of a report. Defaults to all."`
	FolderName string   `json:"folder_name,omitempty" doc:"Folder of an attempt: a pattern with variables such as ${username}."`
	FileName   string   `json:"file_name,omitempty" doc:"Name of the file of an attempt: a pattern with variables."`
	PDF        string   `json:"pdf,omitempty" enum:"off,on,required" doc:"PDF/A files beside the HTML files of attempts: off (the default); on: an attempt that cannot be printed has its HTML file alone; required: it fails the job. The server needs archive.pdf.workers."`
}

// ArchiveSettings state how a job archives. They are kept with the job and written into the package. The zero value of
// a field means that it is not set; the preset of the request replaces it.
type ArchiveSettings struct {
	Content ArchiveContent `json:"content,omitzero" doc:"What is archived of an activity, and how it is named."`

	CourseBackup     *bool `json:"course_backup,omitempty" doc:"A backup of the whole course is archived. Defaults to false."`
	ActivityBackups  *bool `json:"activity_backups,omitempty" doc:"A backup of each activity is archived. Defaults to false."`
	DeleteBackups    *bool `json:"delete_backups,omitempty" doc:"The backups that the job started are deleted in the source: when the archive is stored with verified copies and signed, or when the job failed. Other backups are never deleted. Defaults to true."`
	ActivityOptional *bool `json:"activity_optional,omitempty" doc:"Activities that cannot be archived are left out, rather than failing the job. Defaults to true."`

	Package  string `json:"package,omitempty" enum:"bag,bag+ocfl" doc:"Form of the package: bag (RFC 8493, the default), or bag+ocfl: besides, each activity is stored as a version of an OCFL 1.1 object."`
	Pack     string `json:"pack,omitempty" enum:"tar.gz,zip,none" doc:"File that a bag is packed into: tar.gz (the default), zip or none."`
	FileName string `json:"file_name,omitempty" doc:"Name of the package: a pattern with variables such as ${courseshortname}."`

	Locations []string `json:"locations,omitempty" doc:"Storage locations. Defaults to all."`
	Quorum    string   `json:"quorum,omitempty" doc:"Locations that must have a verified copy before an archive counts as stored: all (the default), majority, or a number."`

	Sign        *bool    `json:"sign,omitempty" doc:"The package gets a time stamp (RFC 3161). Defaults to true."`
	Authorities []string `json:"authorities,omitempty" doc:"Time-stamp authorities, in the order in which they are asked. Defaults to all, in the order of the file."`

	Keep     string   `json:"keep,omitempty" doc:"Time for which the archive is kept, after which it is deleted: 10y, or unlimited (the default)."`
	Deadline string   `json:"deadline,omitempty" doc:"Time that a job has from its first phase: 2h (the default), or unlimited."`
	Attempts int      `json:"attempts,omitempty" min:"1" doc:"Attempts at a phase, at most 100. Defaults to 5."`
	Notify   []string `json:"notify,omitempty" doc:"Mail addresses of the people who are notified of the end."`
}

// ArchiveRequest asks for an archive of activities of one course. It is the spec of the job.
type ArchiveRequest struct {
	Source     string          `json:"source"` // name in the configuration
	Course     string          `json:"course"`
	Activities []string        `json:"activities,omitempty"` // ids; empty: all that can be archived
	Preset     string          `json:"preset,omitempty"`     // defaults to default
	Settings   ArchiveSettings `json:"settings,omitzero"`
	Trigger    string          `json:"trigger,omitempty"` // manual (the default), schedule or event
	Note       string          `json:"note,omitempty"`    // why
}

// ArchiveOrder is the body that creates an archive job.
type ArchiveOrder struct {
	ArchiveRequest
	Owner    string `json:"owner,omitempty"` // defaults to the person who requests it
	Group    string `json:"group,omitempty"`
	Priority *int   `json:"priority,omitempty"` // 0 to 99, lower first
	Actor    string `json:"actor,omitempty"`    // the person
	Key      string `json:"key,omitempty"`      // idempotency key
}

// ArchivePlan is what a request would archive. Nothing is stored or started for it.
type ArchivePlan struct {
	Source     ArchiveSource     `json:"source"`
	Course     ArchiveCourse     `json:"course"`
	Settings   ArchiveSettings   `json:"settings"`              // with the preset applied
	Package    string            `json:"package"`               // its name, if it were made now
	Activities []ArchiveActivity `json:"activities"`            // that would be archived
	Skipped    []ArchiveActivity `json:"skipped,omitempty"`     // with the reason
	Locations  []ArchiveLocation `json:"locations"`             // where its files would be stored
	Items      int               `json:"items"`                 // of the activities that would be archived
	Bytes      int64             `json:"bytes"`                 // in their newest archives, as far as there are any
	Unknown    int               `json:"unknown,omitempty"`     // activities whose size is not known
	RetainTo   time.Time         `json:"retain_until,omitzero"` // zero: it is kept indefinitely
	Warnings   []string          `json:"warnings,omitempty"`
}

// ArchiveSource is a source as it answers.
type ArchiveSource struct {
	Name    string `json:"name"` // in the configuration
	Kind    string `json:"kind,omitempty"`
	Title   string `json:"title,omitempty"`
	URL     string `json:"url,omitempty"`
	Version string `json:"version,omitempty"`
}

// ArchiveSources lists what can be archived from, and where archives can be stored.
type ArchiveSources struct {
	Sources   []ArchiveSource   `json:"sources"`
	Locations []ArchiveLocation `json:"locations"`
}

// ArchiveCourse is a course of a source.
type ArchiveCourse struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	ShortName string `json:"short_name,omitempty"`
	Category  string `json:"category,omitempty"`
	URL       string `json:"url,omitempty"`
}

// ArchiveActivity is an activity of a course, compared with its newest archive.
type ArchiveActivity struct {
	ID       string    `json:"id"`
	Module   string    `json:"module"`
	Name     string    `json:"name"`
	Section  string    `json:"section,omitempty"`
	URL      string    `json:"url,omitempty"`
	State    string    `json:"state"` // archived, changed, missing, removed, expired, or excluded with the reason
	Reason   string    `json:"reason,omitempty"`
	Items    int       `json:"items"` // planned; in an overview: of the newest archive
	Bytes    int64     `json:"bytes"` // in its newest archive
	Job      job.ID    `json:"job,omitempty"`
	Archived time.Time `json:"archived,omitzero"`
	Drift    bool      `json:"drift,omitempty"`    // it changed while it was archived
	Failures int       `json:"failures,omitempty"` // to archive it as it is now
	Cause    string    `json:"cause,omitempty"`    // of the last failure
	Warnings []string  `json:"warnings,omitempty"`
}

// ArchiveLocation is a storage location of archives.
type ArchiveLocation struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Address string `json:"address,omitempty"` // without secrets
	Tier    string `json:"tier,omitempty"`
	Reason  string `json:"reason,omitempty"` // why it cannot be used now
}

// ArchiveOverview compares the activities of a course with their archives.
type ArchiveOverview struct {
	Source     string            `json:"source"`
	Course     ArchiveCourse     `json:"course"`
	Counts     map[string]int    `json:"counts"` // of activities by state
	Activities []ArchiveActivity `json:"activities"`
}

// Archive is what one archive job made.
type Archive struct {
	Job        job.ID    `json:"job"`
	Source     string    `json:"source"`
	Course     string    `json:"course"`
	CourseName string    `json:"course_name"`
	Category   string    `json:"category,omitempty"`
	Owner      string    `json:"owner,omitempty"`
	Trigger    string    `json:"trigger"`
	Outcome    string    `json:"outcome"` // making, complete, failed or deleted
	Created    time.Time `json:"created"`
	Ended      time.Time `json:"ended,omitzero"`
}

// Archives is a page of archives, the newest first.
type Archives struct {
	Archives []Archive `json:"archives"`
	Next     string    `json:"next,omitempty"` // after of the next page; empty: this is the last one
}

// ArchiveDetails is an archive with all that is known of it.
type ArchiveDetails struct {
	Archive
	State      lifecycle.State   `json:"state,omitempty"` // of its job; empty: the record was removed
	Message    string            `json:"message,omitempty"`
	Retain     time.Time         `json:"retain_until,omitzero"` // the latest of its copies; zero: indefinitely
	Settings   ArchiveSettings   `json:"settings"`
	Activities []ArchiveActivity `json:"activities"`
	Files      int               `json:"files"`
	Bytes      int64             `json:"bytes"`
	Stored     []ArchiveStored   `json:"stored"`
	Objects    []ArchiveObject   `json:"objects,omitempty"`
	Stamps     []ArchiveStamp    `json:"stamps,omitempty"`
	Holds      []ArchiveHold     `json:"holds,omitempty"`
	Deletions  []ArchiveDeletion `json:"deletions,omitempty"`
	Tombstone  *ArchiveTombstone `json:"tombstone,omitempty"`
}

// ArchiveStored sums up the copies of an archive in one storage location.
type ArchiveStored struct {
	Location string    `json:"location"`
	Copies   int       `json:"copies"`  // verified, and not deleted
	Missing  int       `json:"missing"` // not stored yet
	Faults   int       `json:"faults"`
	Deleted  int       `json:"deleted"`
	Checked  time.Time `json:"checked,omitzero"` // last check of the copy whose check is the longest ago
	Error    string    `json:"error,omitempty"`  // of the last attempt

	// LegalHold is who enforces the legal holds of the archive here: "location" (the storage service too), "pending"
	// (it has not got them for each copy yet) or "stagepost" (alone); empty: there is none.
	LegalHold string `json:"legal_hold,omitempty"`
}

// ArchiveObject is the version of an OCFL object that an archive has in a storage root. A fixity check reads all of its
// files.
type ArchiveObject struct {
	Location string    `json:"location"` // objects/NAME
	Object   string    `json:"object"`
	Version  string    `json:"version"`          // such as v1
	SHA512   string    `json:"sha512"`           // of the list of "SHA-512, two spaces, path" of its files by path
	Stored   time.Time `json:"stored"`           // and verified
	Checked  time.Time `json:"checked,omitzero"` // last fixity check since it was stored
	Faults   int       `json:"faults"`           // files that the last check found damaged
	Healed   int       `json:"healed"`           // files that were replaced, ever
}

// ArchiveStamp is a time stamp (RFC 3161) of a file of an archive.
type ArchiveStamp struct {
	Path       string    `json:"path"`
	Generation int       `json:"generation"` // 1 for the first; a renewal has the next
	Time       time.Time `json:"time"`
	Authority  string    `json:"authority"`
	Expires    time.Time `json:"expires"`
}

// ArchiveArtifact is a file of an archive.
type ArchiveArtifact struct {
	Path   string    `json:"path"`
	Role   string    `json:"role"` // payload, backup, metadata or signature
	Size   int64     `json:"size"`
	SHA256 string    `json:"sha256"`
	SHA512 string    `json:"sha512"`
	Made   time.Time `json:"made"`

	Copies []ArchiveCopy `json:"copies,omitempty"` // in order of their locations; those that were replaced are left out
}

// ArchiveCopy is a file of an archive in one storage location.
type ArchiveCopy struct {
	Location   string    `json:"location"`
	Generation int       `json:"generation"`        // 1 for the first; one that replaces a damaged one has the next
	State      string    `json:"state"`             // planned, verified, damaged, missing or deleted
	SHA256     string    `json:"sha256,omitempty"`  // when it was read last; empty: it was not read to its end
	Verified   time.Time `json:"verified,omitzero"` // when it was stored, and read back
	Checked    time.Time `json:"checked,omitzero"`  // last fixity check since
	Result     string    `json:"result,omitempty"`  // of this check: ok, corrupt or missing
	Detail     string    `json:"detail,omitempty"`  // of a fault; of a planned copy: of the last attempt to store it
	Deleted    time.Time `json:"deleted,omitzero"`
}

// ArchiveArtifacts is a page of the files of an archive with their copies, in order of their paths.
type ArchiveArtifacts struct {
	Artifacts []ArchiveArtifact `json:"artifacts"`
	Next      string            `json:"next,omitempty"`
}

// ArchiveRecall is the answer for a file that only slow storage locations have: it is being recalled.
type ArchiveRecall struct {
	Job     job.ID `json:"job"`
	Path    string `json:"path"`
	Message string `json:"message"`
	After   int    `json:"after"` // seconds after which to ask again
}

// ArchivePerson is a person whose data archives contain.
type ArchivePerson struct {
	Source   string `json:"source"`
	ID       string `json:"id"` // in the source
	Username string `json:"username,omitempty"`
	Number   string `json:"number,omitempty"` // such as the matriculation number
	Name     string `json:"name"`
	Email    string `json:"email,omitempty"`
}

// FindPeople is the body that searches people whose data archives contain.
type FindPeople struct {
	Text  string `json:"text"` // a name, username, number, mail address or id
	Note  string `json:"note,omitempty"`
	Actor string `json:"actor,omitempty"`
}

// NamePerson is the body that asks what archives have of a person.
type NamePerson struct {
	Source string `json:"source"`
	ID     string `json:"id"` // in the source
	Note   string `json:"note,omitempty"`
	Actor  string `json:"actor,omitempty"`
}

// ArchivePeople are the persons that a search found.
type ArchivePeople struct {
	People []ArchivePerson `json:"people"`
	More   bool            `json:"more,omitempty"` // there are others: make the search narrower
}

// ArchivePersonContent is a part of an archive that contains data of a person.
type ArchivePersonContent struct {
	Job      job.ID `json:"job"`
	Course   string `json:"course"`
	Activity string `json:"activity,omitempty"`
	Item     string `json:"item,omitempty"`
	Kind     string `json:"kind"` // such as participant or file
	Path     string `json:"path,omitempty"`
	Title    string `json:"title,omitempty"`
}

// ArchivePersonData is what archives have of a person.
type ArchivePersonData struct {
	Person   ArchivePerson          `json:"person"`
	Archives []Archive              `json:"archives"`
	Contents []ArchivePersonContent `json:"contents"`
}

// ErasePerson is the body that removes a person from the catalog.
type ErasePerson struct {
	Source string `json:"source"`
	ID     string `json:"id"`   // of the person, in the source
	Note   string `json:"note"` // why; must not be empty
	Actor  string `json:"actor,omitempty"`
	Expect *int   `json:"expect,omitempty"` // number of contents; required
}

// ArchiveErasure is the record that data of a person were removed. It does not name the person.
type ArchiveErasure struct {
	Request  string    `json:"request"`
	By       string    `json:"by"`
	Reason   string    `json:"reason"`
	Contents int64     `json:"contents"`
	Archives []job.ID  `json:"archives"` // whose packages contain data of the person: they are deleted on their own
	At       time.Time `json:"at"`
}

// HoldArchive is the body that puts a legal hold on an archive.
type HoldArchive struct {
	Name  string `json:"name"` // such as the number of a case
	Note  string `json:"note"` // why; must not be empty
	Actor string `json:"actor,omitempty"`
}

// ArchiveHold is a legal hold on an archive: nothing of it is deleted until it is released.
type ArchiveHold struct {
	Name       string    `json:"name"`
	By         string    `json:"by"`
	Reason     string    `json:"reason"`
	Since      time.Time `json:"since"`
	Released   time.Time `json:"released,omitzero"` // zero: it applies
	ReleasedBy string    `json:"released_by,omitempty"`
}

// ArchiveHolds are the legal holds on an archive, released ones included.
type ArchiveHolds struct {
	Holds []ArchiveHold `json:"holds"`
}

// DeleteArchive is the body that requests that an archive is deleted.
type DeleteArchive struct {
	Note  string `json:"note"` // why; must not be empty
	Actor string `json:"actor,omitempty"`
}

// DecideDeletion is the body that approves or refuses a request to delete.
type DecideDeletion struct {
	Approve bool   `json:"approve"`
	Note    string `json:"note,omitempty"`
	Actor   string `json:"actor,omitempty"`
}

// ArchiveDeletion is a request to delete an archive.
type ArchiveDeletion struct {
	Request     string    `json:"request"`
	Job         job.ID    `json:"job"`
	Kind        string    `json:"kind"`  // retention: its time has ended; early: another person has to approve it
	State       string    `json:"state"` // requested, approved, refused, executing or done
	Reason      string    `json:"reason"`
	RequestedBy string    `json:"requested_by"`
	Requested   time.Time `json:"requested"`
	DecidedBy   string    `json:"decided_by,omitempty"`
	Decided     time.Time `json:"decided,omitzero"`
	Ended       time.Time `json:"ended,omitzero"`
	Remedy      string    `json:"remedy,omitempty"` // the next step
}

// ArchiveDeletions are requests to delete, the oldest first.
type ArchiveDeletions struct {
	Deletions []ArchiveDeletion `json:"deletions"`
}

// ArchiveTombstone is what remains of a deleted archive.
type ArchiveTombstone struct {
	Request    string    `json:"request"`
	By         string    `json:"by"`
	ApprovedBy string    `json:"approved_by,omitempty"` // empty: the retention time had ended
	Reason     string    `json:"reason"`
	Files      int64     `json:"files"`
	Copies     int64     `json:"copies"`
	Bytes      int64     `json:"bytes"`
	Digest     string    `json:"digest"` // SHA-256 of the list of "SHA-512, two spaces, path" of all files by path
	At         time.Time `json:"at"`
}

// ArchiveEvent is the body of an event of another system, which starts an archive job. Unknown fields are refused.
type ArchiveEvent struct {
	Type       string    `json:"type"`                 // what happened, such as exam.ended; for the record
	Course     string    `json:"course"`               // id in the source
	Activities []string  `json:"activities,omitempty"` // ids; empty: all that can be archived
	After      time.Time `json:"after,omitzero"`       // the job does not begin before; zero: at once
}

// ArchiveAccepted is the answer to an event.
type ArchiveAccepted struct {
	Job job.ID `json:"job"`
}

// ArchiveSchedule is a schedule with its times and its newest run.
type ArchiveSchedule struct {
	Name     string    `json:"name"`
	Source   string    `json:"source"`
	Cron     string    `json:"cron"` // five fields: minute, hour, day of the month, month, day of the week
	TimeZone string    `json:"time_zone"`
	DryRun   bool      `json:"dry_run,omitempty"` // its runs start no archive jobs
	Paused   bool      `json:"paused,omitempty"`
	Next     time.Time `json:"next,omitzero"` // zero: it is paused
	Last     *Job      `json:"last,omitempty"`

	// activities whose archive failed, and that are not tried again yet with the same content, the next one first; at
	// most 100
	Waiting []ArchiveWaiting `json:"waiting,omitempty"`
	Waits   int              `json:"waits,omitempty"` // number of these activities
}

// ArchiveWaiting is an activity whose newest archive failed, and that a schedule does not try again before a time,
// unless its content changes.
type ArchiveWaiting struct {
	Course   string    `json:"course,omitempty"` // id; empty: the job failed before it began
	Activity string    `json:"activity"`         // id
	Name     string    `json:"name,omitempty"`   // as in its newest archive
	Failures int       `json:"failures"`         // with the same content
	Last     time.Time `json:"last"`             // time of the last failure
	Until    time.Time `json:"until"`
	Cause    string    `json:"cause"` // of the last failure
	Job      job.ID    `json:"job"`   // that failed last
}

// ArchiveRun is the data of a run of a schedule, a job of the kind archive.run: what it decided.
type ArchiveRun struct {
	Courses   []string            `json:"courses"`        // ids of all courses of the run
	Next      int                 `json:"next,omitempty"` // index of the course that follows
	Counts    map[ArchiveMark]int `json:"counts"`         // of all decisions
	Jobs      []job.ID            `json:"jobs,omitempty"` // that were started; at most 500
	Started   int                 `json:"started"`        // number of jobs
	Unread    int                 `json:"unread,omitempty"`
	Waiting   int                 `json:"waiting,omitempty"`   // activities that failed, and whose pause is not over
	Decisions []ArchiveDecision   `json:"decisions,omitempty"` // at most 500; those that start a job before the others
	Omitted   int                 `json:"omitted,omitempty"`   // decisions that are in the log of the run only
}

// ArchiveMark is a decision of a run: ARCHIVE, FORCE, SKIP or IGNORE.
type ArchiveMark string

// ArchiveDecision is what a run decided about an activity, or about a whole course.
type ArchiveDecision struct {
	Mark     ArchiveMark  `json:"mark"`
	Course   string       `json:"course"`
	Activity string       `json:"activity,omitempty"` // empty: all of the course
	Module   string       `json:"module,omitempty"`
	Name     string       `json:"name,omitempty"`
	State    string       `json:"state,omitempty"` // compared with its newest archive
	Reason   string       `json:"reason"`
	Wait     *ArchiveWait `json:"wait,omitempty"` // it failed before, and the pause is not over
	Job      job.ID       `json:"job,omitempty"`  // the archive job; empty in a dry run
}

// ArchiveWait is why an activity is not tried again yet.
type ArchiveWait struct {
	Failures int       `json:"failures"` // with the content that it has
	Last     time.Time `json:"last"`     // time of the last failure
	Until    time.Time `json:"until"`
	Cause    string    `json:"cause"` // of the last failure
}

// ArchiveSchedules are the schedules by name.
type ArchiveSchedules struct {
	Schedules []ArchiveSchedule `json:"schedules"`
}

// StartSchedule is the body that starts a run of a schedule.
type StartSchedule struct {
	DryRun bool   `json:"dry_run,omitempty"` // it records what it decides, and starts no archive jobs
	Note   string `json:"note,omitempty"`    // why; part of the history
	Actor  string `json:"actor,omitempty"`   // the person
	Key    string `json:"key,omitempty"`     // idempotency key
}
