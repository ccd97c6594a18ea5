package packaging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/format/ocfl"
)

// VersionInput is what a version of an OCFL object is made of: one object for each activity, one version for each job.
type VersionInput struct {
	Facts    Facts
	Activity string   // id; the version has its files and those of the course
	Files    []File   // in any order; those of other activities are left out
	Gathered *os.Root // has the files
	Into     *os.Root // directory of this version alone, for metadata; empty afterwards
	Root     *ocfl.Root
	Stage    string // names the attempt, such as job and epoch: two running attempts must not share it
}

// Version is a stored version of an object.
type Version struct {
	Object string // id
	ocfl.Added
}

// ObjectID is the id of the object of an activity. It is the same for every job.
func ObjectID(f source.Facts, activity string) string {
	system := f.URL
	if u, err := url.Parse(f.URL); err == nil && u.Host != "" {
		system = u.Host + strings.TrimRight(u.Path, "/")
	}
	return "urn:stagepost:" + url.QueryEscape(f.Kind) + ":" + url.QueryEscape(system) + ":" +
		url.QueryEscape(activity) + ":cm"
}

// StoreVersion stores the version of a job, or returns the one that an earlier call of the same job stored. It may be
// repeated after a crash at any point. Content that the object has is not stored again. Errors: [ErrInput],
// [ErrChanged], those of [ocfl.Root.AddVersion] and of the context.
func StoreVersion(ctx context.Context, in VersionInput) (*Version, error) {
	facts, files, err := in.one()
	if err != nil {
		return nil, err
	}
	d := rootDisk{in.Into}
	if err := errors.Join(d.RemoveAll(workDir), d.Mkdir(workDir)); err != nil {
		return nil, err
	}
	id := ObjectID(facts.Source, in.Activity)
	c := &content{name: facts.Activities[0].Name, facts: facts, entries: plan(facts.Activities, files),
		redact: newRedactor(in.Facts.Secrets)}
	if err := c.generate(d, workDir); err != nil {
		return nil, err
	}
	readme, err := generate(d, workDir, readmeFile, func(w io.Writer) error { return c.writeReadme(w, false) })
	if err != nil {
		return nil, err
	}
	c.entries = append(c.entries, readme)
	sortEntries(c.entries)
	added, err := in.Root.AddVersion(ctx, id, in.version(c), ocfl.Options{Stage: in.Stage, Key: facts.Job.ID,
		Fixity: []string{ocfl.SHA256}})
	if errors.Is(err, ocfl.ErrDigest) {
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if err != nil {
		return nil, err
	}
	return &Version{Object: id, Added: added}, d.RemoveAll(workDir)
}

// one returns the facts and files of the one activity.
func (in *VersionInput) one() (Facts, []File, error) {
	if err := checkFacts(&in.Facts, in.Files); err != nil {
		return Facts{}, nil, err
	}
	facts, err := in.Facts.clean()
	if err != nil {
		return Facts{}, nil, err
	}
	all, events := facts.Activities, facts.Events
	facts.Activities, facts.Events = nil, nil
	for _, a := range all {
		if a.ID == in.Activity {
			facts.Activities = append(facts.Activities, a)
		}
	}
	if len(facts.Activities) == 0 {
		return Facts{}, nil, fmt.Errorf("%w: there is no activity %q", ErrInput, in.Activity)
	}
	for _, e := range events {
		if e.Activity == "" || e.Activity == in.Activity {
			facts.Events = append(facts.Events, e)
		}
	}
	var files []File
	for _, f := range in.Files {
		if f.Activity == "" || f.Activity == in.Activity {
			files = append(files, f)
		}
	}
	return facts, files, nil
}

// version lists the files for OCFL.
func (in *VersionInput) version(c *content) ocfl.Version {
	job := &c.facts.Job
	v := ocfl.Version{Created: job.Packaged, Message: "Archive of " + line(c.name) + ", job " + job.ID}
	if job.Owner != "" {
		v.User = ocfl.User{Name: job.Owner, Address: job.OwnerURI}
	}
	for i := range c.entries {
		e := &c.entries[i]
		v.Files = append(v.Files, ocfl.File{Path: e.name, Digest: e.sha512, Size: e.size,
			Open: func() (io.ReadCloser, error) {
				if e.file == nil {
					return in.Into.Open(e.made)
				}
				return openGathered(in.Gathered, e)
			}})
	}
	return v
}
