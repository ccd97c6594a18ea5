package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/unpack"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/format/noid"
	"github.com/stagepost/stagepost/job"
)

// Types of a submission. Files, containers and object manifests make one object, the batch kinds one for each row.
const (
	TypeFile                   = "file"
	TypeContainer              = "container"
	TypeObjectManifest         = "object-manifest"
	TypeBatchManifest          = "batch-manifest"
	TypeContainerBatchManifest = "container-batch-manifest"
	TypeFileBatchManifest      = "single-file-batch-manifest"
)

// Types lists the types that a submission may name.
func Types() []string {
	return []string{TypeFile, TypeContainer, TypeObjectManifest, TypeBatchManifest, TypeContainerBatchManifest,
		TypeFileBatchManifest}
}

// Submission describes a payload. All fields may be left out.
type Submission = api.Submission

// checkSubmission refuses what could never be ingested, and brings the rest into normal form.
func checkSubmission(s *Submission, profiles profile.Source) (*profile.Profile, error) {
	refuse := func(format string, args ...any) (*profile.Profile, error) {
		return nil, job.Errorf(job.Invalid, "submit", "", format, args...)
	}
	if s.Type != "" && !slices.Contains(Types(), s.Type) {
		return refuse("type %q is none of %s", s.Type, strings.Join(Types(), ", "))
	}
	p, ok := profiles.Get(s.Profile)
	if !ok {
		return refuse("there is no profile %q (known: %s)", s.Profile, strings.Join(profiles.IDs(), ", "))
	}
	s.Profile = p.ID
	if s.Priority != nil && (*s.Priority < job.FirstPriority || *s.Priority > job.LastPriority) {
		return refuse("priority %d is not within 0..99", *s.Priority)
	}
	for _, text := range []*string{&s.Title, &s.Creator, &s.Date, &s.Note} {
		*text = strings.TrimSpace(*text)
	}
	s.LocalIDs = splitIDs(s.LocalIDs)
	texts := map[string]string{"submitter": s.Submitter, "title": s.Title, "creator": s.Creator, "date": s.Date,
		"note": s.Note, "key": s.Key}
	for _, id := range s.LocalIDs {
		texts["local id "+id] = id
	}
	for field, text := range texts {
		if err := record.CheckText(text); err != nil {
			return refuse("%s: %w", field, err)
		}
	}
	if s.Filename != "" {
		name, err := p.Names.Rules().Clean(s.Filename)
		if err != nil {
			return refuse("filename: %w", err)
		}
		s.Filename = name
	}
	if s.PrimaryID != "" {
		ark, err := noid.ParseARK(s.PrimaryID)
		if err != nil {
			return refuse("primary id: %w", err)
		}
		s.PrimaryID = ark.String()
	}
	if err := errors.Join(checkDigest(s), checkDescription(s)); err != nil {
		return nil, err
	}
	if _, err := addresses(s.Notification); err != nil {
		return refuse("notification %q: %w", s.Notification, err)
	}
	return p, nil
}

func checkDigest(s *Submission) error {
	if s.DigestType == "" && s.DigestValue == "" {
		return nil
	}
	a, err := checkm.ParseAlgorithm(strings.TrimSpace(s.DigestType))
	if err == nil {
		_, err = checkm.NewHash(a)
	}
	if err != nil {
		return job.Errorf(job.Invalid, "submit", "", "digest type %q: %w", s.DigestType, err)
	}
	value := strings.ToLower(strings.TrimSpace(s.DigestValue))
	if len(value) != a.HexLen() || strings.Trim(value, "0123456789abcdef") != "" {
		return job.Errorf(job.Invalid, "submit", "", "digest value: %s has %d hexadecimal digits", a, a.HexLen())
	}
	s.DigestType, s.DigestValue = string(a), value
	return nil
}

// splitIDs takes ids apart at semicolons, as Merritt does, without repetitions.
func splitIDs(ids []string) []string {
	var all []string
	for _, one := range ids {
		for _, id := range (checkm.Row{LocalID: one}).LocalIDs() {
			if !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all
}

// Submit accepts a payload: when it returns, payload and batch are on disk. A second call with the same key and
// submitter gives the batch of the first; with another payload the error is of kind Conflict. What could never be
// ingested is refused as Invalid.
func (a *App) Submit(ctx context.Context, s Submission, from io.Reader) (job.Job, error) {
	return a.SubmitFor(ctx, "", s, from)
}

// SubmitFor is Submit for the owner of a user token, who may use the profiles that name it and add versions to the
// objects that it may update. What it may not use is as unknown: a profile Invalid, an object NotFound. An empty user
// may do everything.
func (a *App) SubmitFor(ctx context.Context, user string, s Submission, from io.Reader) (job.Job, error) {
	p, err := a.admit(ctx, user, &s)
	if err != nil {
		return job.Job{}, err
	}
	u, err := a.Upload(user)
	if err != nil {
		return job.Job{}, err
	}
	u.most = max(p.Limits.Bytes, p.Limits.Manifest)
	if err := u.Add(ctx, "", from); err != nil {
		return job.Job{}, err
	}
	return u.enter(ctx, p, s)
}

// admit checks a submission of a user, brings it into normal form and gives its profile.
func (a *App) admit(ctx context.Context, user string, s *Submission) (*profile.Profile, error) {
	p, err := checkSubmission(s, permitted{a.options.Profiles, user, within(ctx)})
	if err != nil {
		return nil, err
	}
	byUser := user != "" || isUser(ctx)
	if byUser && s.Priority != nil && p.Priority != nil && *s.Priority < *p.Priority {
		return nil, job.Errorf(job.Refused, "submit", "", "priority %d goes before that of profile %s, which "+
			"is %d: only staff may order it", *s.Priority, p.ID, *p.Priority)
	}
	return p, a.mayUpdate(ctx, user, p, s)
}

type userKey struct{}

// AsUser marks what is submitted as handed in by a user rather than by staff: it may not go before others of its
// profile.
func AsUser(ctx context.Context) context.Context { return context.WithValue(ctx, userKey{}, true) }

func isUser(ctx context.Context) bool { return ctx.Value(userKey{}) != nil }

type withinKey struct{}

// Within limits what is submitted to profiles of the collections, and to new versions of their objects.
func Within(ctx context.Context, collections ...string) context.Context {
	return context.WithValue(ctx, withinKey{}, collections)
}

// within returns the collections to which a submission is limited; nil: it is not.
func within(ctx context.Context) []string {
	collections, _ := ctx.Value(withinKey{}).([]string)
	return collections
}

// sameSubmission refuses a key that was used for something else.
func sameSubmission(batch *job.Job, want record.BatchSpec) error {
	var got record.BatchSpec
	if err := json.Unmarshal(batch.Spec, &got); err != nil {
		return job.Errorf(job.Internal, "submit", batch.ID, "spec: %w", err)
	}
	if !reflect.DeepEqual(got, want) {
		return job.Errorf(job.Conflict, "submit", batch.ID, "the key %q was used for another submission", batch.Key)
	}
	return nil
}

// sniffed is how much of a payload is read to see whether it begins like a manifest, in bytes.
const sniffed = 64 << 10

// asItIs is what a depositor can do whose file only resembles a manifest.
const asItIs = "to store the file as it is, submit it with the type " + TypeFile

// detect finds out what a payload is: a container by its name, a manifest by its profile, else a file. What begins like
// a manifest, or is named like one, is a manifest: if it cannot be read, the error is final, so that a damaged one is
// never stored as an object.
func detect(f io.ReadSeeker, name string) (string, error) {
	if _, _, ok := unpack.KindOf(name); ok {
		return TypeContainer, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	begin := make([]byte, sniffed)
	n, err := io.ReadFull(f, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	text, wide := plainText(begin[:n])
	if !likeManifest(text) && !strings.HasSuffix(strings.ToLower(name), ".checkm") {
		return TypeFile, nil
	}
	if wide {
		return "", fail(CauseCorruptManifest, "the manifest is UTF-16: save it as UTF-8; %s", asItIs)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	p, err := checkm.NewReader(name, f, checkm.Options{}).Profile()
	var where *checkm.Error
	switch {
	case errors.As(err, &where) && where.Err == nil:
		return "", fail(CauseCorruptManifest, "%w; %s", err, asItIs)
	case err != nil:
		return "", err
	case p == checkm.Object:
		return TypeObjectManifest, nil
	}
	for typ, want := range batchProfiles {
		if p == want {
			return typ, nil
		}
	}
	return "", fail(CauseWrongType, "a manifest of the profile %s cannot be ingested by itself; %s", p, asItIs)
}

// plainText gives UTF-16 with a byte order mark as UTF-8, and takes the mark off UTF-8.
func plainText(begin []byte) (text []byte, wide bool) {
	low := bytes.HasPrefix(begin, []byte{0xff, 0xfe})
	if !low && !bytes.HasPrefix(begin, []byte{0xfe, 0xff}) {
		return bytes.TrimPrefix(begin, []byte("\ufeff")), false
	}
	units := make([]uint16, 0, len(begin)/2)
	for pair := range slices.Chunk(begin[2:], 2) {
		if len(pair) == 2 {
			one, two := uint16(pair[0]), uint16(pair[1])
			if low {
				one, two = two, one
			}
			units = append(units, one<<8|two)
		}
	}
	return []byte(string(utf16.Decode(units))), true
}

// manifestWords are the header lines of manifests, without #%.
var manifestWords = []string{"checkm", "profile", "prefix", "fields", "columns", "eof"}

// likeManifest reports whether the first line that is neither blank nor a comment is a header line of a manifest, or
// the beginning of one that was cut. Other texts begin with "#%" as well, so the word counts.
func likeManifest(begin []byte) bool {
	for line := range bytes.Lines(begin) {
		text := strings.ToLower(strings.TrimSpace(string(line)))
		word, header := strings.CutPrefix(text, "#%")
		if !header {
			if text == "" || text[0] == '#' {
				continue
			}
			return false
		}
		return slices.ContainsFunc(manifestWords, func(known string) bool {
			cut := !bytes.HasSuffix(line, []byte("\n")) && strings.HasPrefix(known, word)
			return cut || strings.HasPrefix(word, known)
		})
	}
	return false
}
