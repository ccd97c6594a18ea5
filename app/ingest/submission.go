package ingest

import (
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
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
	return []string{TypeFile, TypeContainer, TypeObjectManifest, TypeBatchManifest, TypeContainerBatchManifest, TypeFileBatchManifest}
}

// Submission is what a depositor says of a payload. All fields may be left out.
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
	texts := map[string]string{"submitter": s.Submitter, "title": s.Title, "creator": s.Creator, "date": s.Date, "note": s.Note, "key": s.Key}
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
	s.LocalIDs = splitIDs(s.LocalIDs)
	if err := checkDigest(s); err != nil {
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
	a, err := checkm.ParseAlgorithm(s.DigestType)
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
