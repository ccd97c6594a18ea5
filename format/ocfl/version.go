package ocfl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// Version is the input of AddVersion: the complete list of the version's files, not the changes.
type Version struct {
	Created time.Time
	User    User // omitted from the inventory if Name is empty
	Message string
	Files   []File
}

// File is one file of a version.
type File struct {
	Path   string // logical path: elements joined by slashes
	Digest string // sha512 in hex, if known. If the object has this content, Open is not called
	Size   int64  // bytes that Open must return; negative if unknown
	Open   func() (io.ReadCloser, error)
}

// Options of AddVersion.
type Options struct {
	// Stage names the attempt, such as job and epoch. Two running attempts must not share it (the second gets
	// ErrBusy).
	Stage string
	// Fixity lists further algorithms (md5, sha1, sha256, blake2b-512) to record for content that is new.
	Fixity []string
	// ExpectHead, if not nil, is the required head of the object: "" for an object that must not exist. Another head
	// gives ErrConflict.
	ExpectHead *string
	// Key makes the call idempotent: if a version of the object has this key, that version is the result. The last
	// line of the version's message stores it.
	Key string
	// Before, if not nil, is called once what is added is on the disk and before the object has it. Its error ends the
	// call, and the object is as before. It may be called again after another attempt was first.
	Before func() error
}

// Added is the result of AddVersion.
type Added struct {
	Version string
	Created bool  // false if an earlier call with the same key created the version
	Stored  int   // files that were written; the others existed
	Bytes   int64 // of the files written
}

// AddVersion stores a new version of object id, and creates the object if it does not exist. When it returns without
// an error, the version is on disk (synced). After an error or a crash the object is as before or has the complete
// version. The same call again ends with one version and no leftovers (see the package overview).
// Errors: ErrInvalid, ErrConflict, ErrBusy, ErrDigest, ErrCorrupt, those of the sources and of the file system.
func (r *Root) AddVersion(ctx context.Context, id string, v Version, o Options) (Added, error) {
	if err := r.checkVersion(id, v, o); err != nil {
		return Added{}, fmt.Errorf("add version to %q: %w", id, err)
	}
	s, err := r.openStage(o.Stage, false)
	if err != nil {
		return Added{}, fmt.Errorf("add version to %q: %w", id, err)
	}
	a := &addition{root: r, stage: s, id: id, dir: r.Path(id), version: v, options: o, set: r.ops.Set()}
	added, err := a.run(ctx)
	closed := errors.Join(a.set.Close(), s.close())
	if err != nil {
		return Added{}, fmt.Errorf("add version to %q: %w", id, errors.Join(err, closed))
	}
	// The version is committed, so a stage that cannot be removed is not an error. Sweep removes it.
	return added, nil
}

func (r *Root) checkVersion(id string, v Version, o Options) error {
	if err := validID(id); err != nil {
		return err
	}
	if r.spec != specVersion {
		return fmt.Errorf("%w: the storage root is of OCFL %s; versions are added to %s only", ErrInvalid, r.spec,
			specVersion)
	}
	if strings.ContainsAny(o.Key, "\r\n") || strings.TrimSpace(o.Key) != o.Key {
		return fmt.Errorf("%w key %q: must be one line without blanks around it", ErrInvalid, o.Key)
	}
	if v.Created.IsZero() || v.Created.Year() < 0 || v.Created.Year() > 9999 {
		return fmt.Errorf("%w created: %v", ErrInvalid, v.Created)
	}
	for _, text := range []string{v.Message, v.User.Name, v.User.Address, o.Key} {
		if strings.ToValidUTF8(text, "") != text {
			return fmt.Errorf("%w message, user or key: not UTF-8", ErrInvalid)
		}
	}
	for _, algorithm := range o.Fixity {
		if newHash(algorithm) == nil || algorithm == SHA512 {
			return fmt.Errorf("%w fixity algorithm %q", ErrInvalid, algorithm)
		}
	}
	set := newPathSet(len(v.Files))
	for _, f := range v.Files {
		if err := validLogical(f.Path); err != nil {
			return err
		}
		if conflict := set.add(f.Path); conflict != "" {
			return fmt.Errorf("%w logical path: %s", ErrInvalid, conflict)
		}
		if f.Digest != "" && !validDigest(SHA512, f.Digest) {
			return fmt.Errorf("%w digest of %q: not a sha512 in hex", ErrInvalid, f.Path)
		}
		if f.Open == nil {
			return fmt.Errorf("%w file %q: no Open", ErrInvalid, f.Path)
		}
	}
	return nil
}

// addition is one call of AddVersion.
type addition struct {
	root    *Root
	stage   *stage
	id      string
	dir     string // of the object
	version Version
	options Options
	ops     fileOps // of the stage, while files are written to it
	set     syncSet // of the staged files and directories, and of the directories above the object

	base *Object    // as of the intake; nil for a new object
	next *Inventory // with the new version
}

func (a *addition) run(ctx context.Context) (Added, error) {
	base, err := a.current(ctx)
	if err != nil {
		return Added{}, err
	}
	if made, err := a.decide(base); made != "" || err != nil {
		if err == nil { // the earlier call may have crashed before it synced the names
			err = a.syncUp(a.dir)
		}
		return Added{Version: made}, err
	}
	if a.ops, err = a.root.ops.Within(a.stage.dir); err != nil {
		return Added{}, err
	}
	defer a.ops.Leave()
	if err := a.begin(base); err != nil {
		return Added{}, err
	}
	in := newIntake(a, a.next.Head, slices.Compact(slices.Sorted(slices.Values(a.options.Fixity))))
	defer in.buf.free()
	if err := a.takeFiles(ctx, in); err != nil {
		return Added{}, err
	}
	if err := a.writeInventory(); err != nil {
		return Added{}, err
	}
	made, err := a.promote(ctx)
	if err != nil {
		return Added{}, err
	}
	if made != "" {
		return Added{Version: made}, nil
	}
	return Added{Version: a.next.Head, Created: true, Stored: in.stored, Bytes: in.bytes}, nil
}

// current returns the object after recovery from a crash; nil if it does not exist.
func (a *addition) current(ctx context.Context) (*Object, error) {
	lock, err := a.root.lockObject(ctx, a.dir)
	if err != nil || lock == nil {
		return nil, err
	}
	defer lock.Close()
	return a.reload()
}

// reload requires the object's lock.
func (a *addition) reload() (*Object, error) {
	o, _, err := a.root.recoverLocked(a.stage, a.dir)
	if err != nil {
		return nil, err
	}
	return o, o.checkID(a.id)
}

// decide returns the version that an earlier call created, or a refusal, or neither.
func (a *addition) decide(o *Object) (string, error) {
	head := ""
	if o != nil {
		head = o.inv.Head
		if made := o.inv.findKey(a.options.Key); made != "" {
			return made, a.sameFiles(o, made)
		}
	}
	if want := a.options.ExpectHead; want != nil && *want != head {
		return "", fmt.Errorf("%w: head is %q, expected %q", ErrConflict, head, *want)
	}
	return "", nil
}

// sameFiles refuses a key that was used for other files: it compares paths always, and digests if the caller states
// them.
func (a *addition) sameFiles(o *Object, made string) error {
	files, err := o.Files(made)
	if err != nil {
		return err
	}
	stored := make(map[string]string, len(files))
	for _, f := range files {
		stored[f.Path] = f.Digest
	}
	same := len(stored) == len(a.version.Files)
	for _, f := range a.version.Files {
		digest, ok := stored[f.Path]
		same = same && ok && (f.Digest == "" || o.inv.DigestAlgorithm != SHA512 || sameDigest(f.Digest, digest))
	}
	if !same {
		return fmt.Errorf("%w: key %q belongs to %s, which has other files", ErrConflict, a.options.Key, made)
	}
	return nil
}

// begin creates the inventory to which the files are added, and the directory in the stage.
func (a *addition) begin(base *Object) error {
	a.base = base
	if base == nil {
		a.next = newInventory(a.id)
		a.next.Head = "v1"
	} else {
		if base.inv.Type != inventoryType(specVersion) || base.inv.DigestAlgorithm != SHA512 {
			return fmt.Errorf("%w: the object is of type %s with %s; only OCFL %s with sha512 is extended", ErrInvalid,
				base.inv.Type, base.inv.DigestAlgorithm, specVersion)
		}
		head, err := base.inv.nextVersion()
		if err != nil {
			return err
		}
		a.next = base.inv.next()
		a.next.Head = head
	}
	if err := a.ops.Mkdir(a.home()); err != nil {
		return err
	}
	return a.ops.Mkdir(path.Join(a.home(), a.next.Head))
}

// home returns the staged directory that corresponds to the object's directory.
func (a *addition) home() string { return a.stage.path("object") }

func (a *addition) takeFiles(ctx context.Context, in *intake) error {
	in.made[path.Join(a.home(), a.next.Head)] = true
	state := make(map[string][]string, len(a.version.Files))
	for _, f := range a.version.Files {
		digest, err := in.take(ctx, f)
		if err != nil {
			return fmt.Errorf("file %q: %w", f.Path, err)
		}
		state[digest] = append(state[digest], f.Path)
	}
	if err := in.settle(); err != nil {
		return err
	}
	block := &VersionBlock{
		Created: formatCreated(a.version.Created),
		Message: messageWithKey(a.version.Message, a.options.Key),
		State:   state,
	}
	if a.version.User.Name != "" {
		block.User = &a.version.User
	}
	a.next.Versions[a.next.Head] = block
	maps.DeleteFunc(a.next.Fixity, func(_ string, block map[string][]string) bool { return len(block) == 0 })
	return nil
}

// writeInventory writes the inventory and its sidecar into the staged version directory and into the staged object
// directory, from which they replace those of the object. The set syncs them.
func (a *addition) writeInventory() error {
	data, err := a.next.encode()
	if err != nil {
		return err
	}
	ops, sidecar := a.ops, sidecarText(digestOf(SHA512, data))
	versionDir := path.Join(a.home(), a.next.Head)
	for _, dir := range []string{versionDir, a.home()} {
		if err := writeIn(ops, a.set, path.Join(dir, inventoryFile), data); err != nil {
			return err
		}
		if err := writeIn(ops, a.set, path.Join(dir, sidecarName(SHA512)), sidecar); err != nil {
			return err
		}
	}
	if a.base == nil {
		declaration := path.Join(a.home(), objectDeclaration+specVersion)
		if err := writeIn(ops, a.set, declaration, []byte("ocfl_object_"+specVersion+"\n")); err != nil {
			return err
		}
	}
	return errors.Join(a.set.Dir(versionDir), a.set.Dir(a.home()))
}
