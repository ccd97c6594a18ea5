package ingest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/edge/unpack"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/format/erc"
	"github.com/stagepost/stagepost/format/ocfl"
)

// Causes of failure, one word each: what a job's record, the report and filters call it.
const (
	CausePayloadMissing  = "payload-missing"   // the staged payload is gone
	CausePayloadDigest   = "payload-digest"    // the payload is not the one whose digest was given
	CauseTooLarge        = "too-large"         // more bytes or files than allowed, or than fit on the disk
	CauseCorruptManifest = "corrupt-manifest"  // a manifest that cannot be read
	CauseEmptyManifest   = "empty-manifest"    // a manifest without rows
	CauseWrongType       = "wrong-type"        // the payload is not of the type that was named
	CauseBadRow          = "bad-row"           // a row of a batch that no object can be made of
	CauseUnsafeName      = "unsafe-name"       // a name that could leave its directory or mislead
	CauseDuplicateName   = "duplicate-name"    // two files of one name
	CauseRefused         = "refused"           // an address or URL that may not be fetched
	CauseNotFound        = "not-found"         // 404 or 410
	CauseHTTPStatus      = "http-status"       // another answer that is no success
	CauseServer          = "server"            // 5xx and the like, again and again
	CauseNetwork         = "network"           // no connection, again and again
	CauseBadDigest       = "bad-digest"        // a file is not the one whose digest the manifest gives
	CauseBadSize         = "bad-size"          // a file has another size than the manifest says
	CauseUnsafeArchive   = "unsafe-archive"    // a container that breaks a rule
	CauseCorruptArchive  = "corrupt-archive"   // a container that cannot be read
	CauseMismatch        = "manifest-mismatch" // a container's own manifest and its files disagree
	CauseIdentifiers     = "identifier-conflict"
	CauseUnknownObject   = "unknown-object" // an identifier of an object that the user may not update
	CauseBadIdentifier   = "bad-identifier" // no ARK
	CauseMinter          = "minter"         // the minter gave none
	CauseBadMetadata     = "bad-metadata"   // a metadata file that cannot be read
	CauseStorage         = "storage"        // a storage location refused the version or gave back other bytes
	CauseCallback        = "callback"       // the callback did not take the news, and the profile requires it
	CauseJobs            = "jobs"           // jobs of the batch failed
)

// needsNew are the causes that a retry cannot mend: what was handed in is wrong.
var needsNew = map[string]string{
	CausePayloadDigest:   "the payload is not the one whose digest was given",
	CauseCorruptManifest: "the manifest cannot be read",
	CausePayloadMissing:  "the payload is gone",
	CauseWrongType:       "the payload is not of its type",
	CauseBadRow:          "the row of the batch manifest is wrong",
}

// fail is a failure with its cause.
func fail(cause, format string, args ...any) error {
	return &chosen{error: engine.Fail(cause, fmt.Errorf(format, args...)), cause: cause}
}

// chosen marks an outcome that a phase chose, whatever errors it wraps.
type chosen struct {
	error
	cause string
}

func (c *chosen) Unwrap() error { return c.error }

// causeOf gives the word of an error that is final.
func causeOf(err error) string {
	var c *chosen
	var e *errCaused
	switch {
	case errors.As(err, &c):
		return c.cause
	case errors.As(err, &e):
		return e.cause
	}
	return cause.Error
}

// final reports whether an error ends the job.
func final(err error) bool {
	var c *chosen
	var e *errCaused
	return errors.As(err, &c) || errors.As(err, &e) && !e.again
}

// errCaused is an error with the word for it, which may pass.
type errCaused struct {
	cause string
	again bool
	err   error
}

func (e *errCaused) Error() string   { return e.err.Error() }
func (e *errCaused) Unwrap() error   { return e.err }
func (e *errCaused) Cause() string   { return e.cause }
func (e *errCaused) Temporary() bool { return e.again }

var fetchCauses = map[fetch.Kind]string{
	fetch.Refused: CauseRefused, fetch.Invalid: CauseRefused, fetch.NotFound: CauseNotFound,
	fetch.Status: CauseHTTPStatus,
	fetch.Server: CauseServer, fetch.Network: CauseNetwork, fetch.TooLarge: CauseTooLarge,
	fetch.BadDigest: CauseBadDigest,
	fetch.BadSize:   CauseBadSize, fetch.Storage: CauseStorage,
}

var nameCauses = map[safename.Rule]string{
	safename.Duplicate: CauseDuplicateName, safename.Collision: CauseDuplicateName,
	safename.Conflict: CauseDuplicateName,
}

var archiveCauses = map[unpack.Rule]string{
	unpack.Format: CauseWrongType, unpack.Corrupt: CauseCorruptArchive, unpack.TooMany: CauseTooLarge,
	unpack.TooLarge: CauseTooLarge,
	unpack.Name:     CauseUnsafeName, unpack.Mismatch: CauseCorruptArchive, unpack.Size: CauseCorruptArchive,
}

// named gives an error of the packages below its cause, and whether it is temporary. Outcomes that a phase chose itself
// stay.
func named(err error) error {
	var (
		f    *fetch.Error
		name *safename.Error
		arch *unpack.Error
		row  *checkm.Error
		c    *chosen
	)
	switch {
	case err == nil || errors.As(err, &c):
		return err
	case errors.As(err, &f):
		again := &errCaused{cause: fetchCauses[f.Kind], again: f.Temporary(), err: err}
		if f.Temporary() {
			return engine.RetryAfter(f.RetryAfter, again)
		}
		return again
	case errors.As(err, &arch):
		return namedArchive(arch, err)
	case errors.As(err, &name):
		cause, ok := nameCauses[name.Rule]
		if !ok {
			cause = CauseUnsafeName
		}
		return &errCaused{cause: cause, err: err}
	case errors.As(err, &row) && row.Err == nil:
		return &errCaused{cause: CauseCorruptManifest, err: err}
	case errors.Is(err, inventory.ErrUnknown):
		return &errCaused{cause: CauseUnknownObject, err: err}
	case errors.Is(err, inventory.ErrConflict):
		return &errCaused{cause: CauseIdentifiers, err: err}
	case errors.Is(err, erc.ErrFormat):
		return &errCaused{cause: CauseBadMetadata, err: err}
	case errors.Is(err, ocfl.ErrCorrupt), errors.Is(err, ocfl.ErrDigest), errors.Is(err, ocfl.ErrInvalid):
		return &errCaused{cause: CauseStorage, err: err}
	case errors.Is(err, ocfl.ErrBusy), errors.Is(err, ocfl.ErrConflict):
		return &errCaused{cause: CauseStorage, again: true, err: err}
	}
	return err
}

func namedArchive(arch *unpack.Error, err error) error {
	if arch.Rule == unpack.Storage || arch.Rule == unpack.Cancelled || arch.Rule == unpack.Exists {
		return engine.Retry(err)
	}
	cause, ok := archiveCauses[arch.Rule]
	if !ok {
		cause = CauseUnsafeArchive
	}
	var name *safename.Error
	if arch.Rule == unpack.Name && errors.As(arch.Err, &name) && nameCauses[name.Rule] != "" {
		cause = nameCauses[name.Rule]
	}
	return &errCaused{cause: cause, err: err}
}

// Bounds of the warnings of one job.
const (
	maxWarnings = 20
	maxWarning  = 400 // bytes of one
)

// warn notes what is odd in what was handed in and no reason to refuse it; the report shows it. A second attempt at a
// phase finds the same and adds nothing.
func (t *task) warn(format string, args ...any) {
	text := strings.ToValidUTF8(fmt.Sprintf(format, args...), "\ufffd")
	if len(text) > maxWarning {
		text = strings.ToValidUTF8(text[:maxWarning], "") + " ..."
	}
	const more = "There are more warnings than are shown here."
	switch all := t.data.Warnings; {
	case slices.Contains(all, text) || slices.Contains(all, more):
	case len(all) == maxWarnings-1:
		t.data.Warnings = append(all, more)
	default:
		t.data.Warnings = append(all, text)
	}
}

// otherSize is the warning about a file whose digest is right and whose size is not.
const otherSize = "%s has %d bytes, its manifest says %d; its digest is right."

// warnManifest notes what is odd in a manifest.
func (t *task) warnManifest(all []*checkm.Error) {
	for _, e := range all {
		t.warn("%s", e)
	}
}
