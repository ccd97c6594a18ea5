package source

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/stagepost/stagepost/format/mbz"
)

// Backups is a source that can make backups of a course or an activity by itself, such as the mbz files of Moodle. A
// backup goes through these calls, each of which can be repeated, by another process too:
//
//	PrepareBackup -> save the request -> StartBackup while it is BackupNew
//	-> BackupState until it is BackupDone -> FetchBackup -> save the request
//	-> DeleteBackup when the archive has verified copies, or the job failed
//
// A request that was saved never starts a second backup, and never gets or deletes the file of another one.
type Backups interface {
	// CanBackup reports why no backup can be started; an empty reason: it can.
	CanBackup(ctx context.Context) (reason string, err error)
	// PrepareBackup makes a request, which starts nothing. activity is empty for a backup of the whole course.
	PrepareBackup(ctx context.Context, course, activity string) (*BackupRequest, error)
	// StartBackup starts a backup that is new, and does nothing for another one. It calls save after it changed the
	// request and before it sends the start. It does not wait until the backup is done. While the source is busy with
	// another one it may return without a start: the backup stays new.
	StartBackup(ctx context.Context, r *BackupRequest, save func() error) error
	// BackupState asks how far a backup is. It fails with [ErrBackupGone] or [ErrBackupFailed].
	BackupState(ctx context.Context, r *BackupRequest) (BackupState, error)
	// FetchBackup verifies the file of a backup that is done and writes it to backups/NAME of out. It sets the File of
	// the request. Parts of downloads stay below scratch until the file is in out, so that a repetition continues them.
	// It fails with [ErrBackupGone].
	FetchBackup(ctx context.Context, r *BackupRequest, scratch *os.Root, out Out) (*Backup, error)
	// DeleteBackup deletes the file of a backup that is done in the source. It returns nil if the file does not exist.
	// A request without a File is of a backup that was not fetched: the file is found by its content first, with
	// scratch for the download, and the request gets it. The call fails with [ErrBackupOther] if the file is not the
	// one of the request, and then deletes nothing.
	DeleteBackup(ctx context.Context, r *BackupRequest, scratch *os.Root) error
}

// BackupsOf gives the backups of a source; nil: it has none.
func BackupsOf(s Source) Backups {
	b, _ := s.(Backups)
	return b
}

// ErrBackupGone is a backup that will never be there. Only a new request helps.
var ErrBackupGone = errors.New("the backup is gone")

// ErrBackupFailed is a backup that the source could not make. It has no file.
var ErrBackupFailed = errors.New("the source could not make the backup")

// ErrBackupOther is a file in the source that has the name of a backup and is not the one that was fetched.
var ErrBackupOther = errors.New("the file is not the one that was fetched")

// BackupRequest identifies a backup. The caller saves it.
type BackupRequest struct {
	Course   string    `json:"course"`
	Activity string    `json:"activity,omitempty"` // id; empty: of the whole course
	Context  string    `json:"context"`            // where its file will be
	ID       string    `json:"id"`                 // 32 hexadecimal digits
	Asked    time.Time `json:"asked"`              // by the clock of the source
	Posted   time.Time `json:"posted,omitzero"`    // by our clock: the start was sent; zero: it was not
	Warnings []string  `json:"warnings,omitempty"` // what the backup will lack

	File *BackupFile `json:"file,omitempty"` // nil: it was not fetched
}

// BackupFile identifies the file of a backup in its source.
type BackupFile struct {
	Name    string    `json:"name"`
	Area    string    `json:"area"`    // part of the source: of a Moodle, course or activity
	Size    int64     `json:"size"`    // in bytes
	SHA1    string    `json:"sha1"`    // of its content, 40 hexadecimal digits
	Created time.Time `json:"created"` // by the clock of the source
}

// BackupState is how far a backup is.
type BackupState string

// The states of a backup.
const (
	BackupNew     BackupState = "new"     // not started
	BackupRunning BackupState = "running" // started, or the start may still arrive
	BackupDone    BackupState = "done"
)

// Backup is a backup that was fetched and verified.
type Backup struct {
	mbz.Backup
	Name     string   `json:"name"` // in the Out
	Warnings []string `json:"warnings,omitempty"`
}
