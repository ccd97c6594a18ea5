package merritt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/access"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// adopt makes a record of nodes that others created. Those of records that have ended are left alone.
func (p *pass) adopt(ctx context.Context, s *merritt.Seen) error {
	switch {
	case !adoptable(s):
		return nil
	case s.Kind == record.BatchKind && s.Locked:
		return nil // a batch that is being created is read when that has ended
	case s.Kind == record.BatchKind:
		return p.adoptBatch(ctx, s)
	case s.Kind == record.JobKind:
		return p.adoptJob(ctx, s)
	}
	tag := access.SmallTag
	if s.Large() {
		tag = access.LargeTag
	}
	return p.create(ctx, s, engine.Order{Kind: access.Kind, Tags: []string{tag}, Spec: map[string]string{
		"ark": s.Value("ark"), "name": s.Value("token")}})
}

// adoptable reports whether nodes without a record get one. Those of a job get it if its batch takes jobs.
func adoptable(s *merritt.Seen) bool {
	return s.Kind == record.JobKind || s.State != record.Completed && s.State != record.Deleted
}

// takesJobs reports whether records of jobs that others created are added to that of their batch.
func takesJobs(b *job.Job) bool {
	return b.State == record.Processing && b.Children.Created() < b.Children.Expected
}

// create makes the record of nodes. What happened before is not in its history.
func (p *pass) create(ctx context.Context, s *merritt.Seen, o engine.Order) error {
	o.Key, o.Actor, o.Note = merritt.KeyOf(s.Node), merritt.Actor, "created in Merritt as "+s.Node
	o.Created = p.engine.Clock().Now().Add(-time.Millisecond)
	if s.Since.Before(o.Created) {
		o.Created = s.Since
	}
	p.link.Adopt(s.Node)
	_, err := p.engine.Submit(ctx, o)
	return p.adopted(ctx, s, err)
}

// adopted notes that there is another record, whose nodes are to be read again.
func (p *pass) adopted(ctx context.Context, s *merritt.Seen, err error) error {
	if err != nil {
		return err
	}
	_, known, err := p.store.Node(ctx, s.Node)
	if err == nil && !known {
		p.find(s.Node, "another record has its key %s", merritt.KeyOf(s.Node))
	}
	p.again = p.again || known
	return err
}

// adoptBatch makes the record of a batch. If its payload is at hand, Stagepost may work on it. A batch without jobs
// whose payload is missing has no record yet: the payload is searched for by each reading.
func (p *pass) adoptBatch(ctx context.Context, s *merritt.Seen) error {
	digest := digestOf(s)
	spec := record.BatchSpec{Submission: api.Submission{
		Type: typeOf(s.Value("type")), Profile: s.Value("profile"), Submitter: submitter(s.Value("submitter")),
		Title: oneLine(s, "title"), Creator: oneLine(s, "creator"), Date: oneLine(s, "date"),
		Filename: s.Value("filename"), PrimaryID: s.Value("objectID"),
		LocalIDs: localIDs(s.Value("localID")), Note: oneLine(s, "note"),
		DigestType: digest.Type, DigestValue: digest.Value, Update: s.Bool("update"),
		Notification: s.Value("notification"),
	}}
	if d := description(s); d != nil {
		spec.DublinCore, spec.ResourceType, spec.RetainTarget = d.DublinCore, d.ResourceType, d.RetainTarget
	}
	group := p.group(spec.Profile)
	if (s.State == record.Pending || s.State == record.Held) && s.Jobs == 0 {
		f, err := p.payload(s.Value("batchID"), "", spec.Filename)
		if err != nil {
			return err
		}
		if f == nil && p.o.Queue != "" {
			p.findMissing(s, spec.Filename)
			return nil
		}
		if f != nil {
			defer f.Close()
			spec.Key = merritt.KeyOf(s.Node)
			p.link.Adopt(s.Node)
			_, err := p.app.Submit(ctx, spec.Submission, f)
			return p.adopted(ctx, s, err)
		}
	}
	return p.create(ctx, s, engine.Order{Kind: record.BatchKind, Group: group, Owner: spec.Submitter,
		Tags: []string{ingest.QueueTag}, Words: spec.Texts(), Spec: spec})
}

// adoptJob makes the record of a job, if that of its batch takes jobs.
func (p *pass) adoptJob(ctx context.Context, s *merritt.Seen) error {
	batch, known, err := p.store.Node(ctx, s.Batch)
	if err != nil || !known {
		return err // a batch that has ended, or whose record is made by the next reading
	}
	b, err := p.store.Get(ctx, batch)
	if err != nil || !takesJobs(&b) {
		return err
	}
	var of record.BatchSpec
	if err := json.Unmarshal(b.Spec, &of); err != nil {
		return err
	}
	ids := s.Identifiers()
	ids.Primary = cmp.Or(ids.Primary, objectOf(s.Stored.Mode), s.Value("objectID"))
	if len(ids.Local) == 0 { // the node of identifiers is optional
		ids.Local = localIDs(s.Value("localID"))
	}
	spec := record.JobSpec{
		Type: typeOf(s.Value("type")), Profile: s.Value("profile"), Submitter: submitter(s.Value("submitter")),
		Filename: s.Value("filename"), Size: -1, Title: oneLine(s, "title"), Creator: oneLine(s, "creator"),
		Date: oneLine(s, "date"), PrimaryID: ids.Primary, LocalIDs: ids.Local, Note: oneLine(s, "note"),
		Digest: digestOf(s), Update: s.Bool("update"),
		Described: of.Described(), Description: description(s),
	}
	if s.State == record.Pending || s.State == record.Held {
		f, err := p.payload(s.Value("batchID"), s.Value("jobID"), spec.Filename)
		if err != nil {
			return err
		}
		if f == nil && p.o.Queue != "" && p.engine.Clock().Now().Sub(s.Since) < p.o.Settle {
			p.findMissing(s, spec.Filename)
			return nil
		}
		if f != nil {
			defer f.Close()
			spec.Part = b.Children.Created() + 1
			if spec.Size, err = p.app.StagePart(ctx, batch, spec.Part, f); err != nil {
				return err
			}
		}
	}
	return p.create(ctx, s, engine.Order{Kind: record.JobKind, Parent: batch, Priority: &s.Priority,
		Group: p.group(spec.Profile), Owner: b.Owner, Tags: p.tags(spec.Profile), Words: spec.Texts(), Spec: spec})
}

// ready reports whether a record can be moved to the state of its nodes now. A batch that others created takes its jobs
// first.
func (p *pass) ready(ctx context.Context, s *merritt.Seen, j *job.Job) (bool, error) {
	if s.Kind != record.BatchKind {
		return true, nil
	}
	switch {
	case j.State == record.Pending && s.State == record.Processing && (s.Locked || s.Jobs == 0):
		return false, nil // its jobs are being created
	case j.State == record.Pending && s.Jobs > 0:
		return false, p.begin(ctx, s, j)
	case j.State == record.Processing && s.State != record.Failed && !j.Children.Settled(),
		j.State == record.Processing && j.Children.Created() < j.Children.Expected:
		return false, nil // its jobs follow first
	}
	return true, nil
}

// begin moves a batch to Processing, which expects the jobs that it has.
func (p *pass) begin(ctx context.Context, s *merritt.Seen, j *job.Job) error {
	data, err := json.Marshal(record.BatchData{Type: ingest.TypeFile, Jobs: s.Jobs, Priority: j.Priority})
	if err != nil {
		return err
	}
	results, err := p.store.Commit(ctx, job.Change{Job: j.ID, Version: j.Version, From: record.Pending,
		At: p.engine.Clock().Now(), Actor: merritt.Actor, Set: job.Fields{Data: data, Expected: &s.Jobs}})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		return err
	}
	p.again = true
	*j = results[0].Job
	return p.walk(ctx, s, j, []step{{record.Begin, lifecycle.Worker}}, noted+" "+s.Message)
}

// group returns the group of the jobs of a profile, "" of one that is unknown.
func (p *pass) group(id string) string {
	if one, ok := p.o.Profiles.Get(id); ok {
		return one.Group()
	}
	return ""
}

// tags are those by which holds name the jobs of a profile.
func (p *pass) tags(id string) []string {
	all := []string{ingest.QueueTag}
	if one, ok := p.o.Profiles.Get(id); ok {
		for _, dir := range one.Storage {
			all = append(all, ingest.PlaceTag(dir))
		}
	}
	return all
}

// findMissing notes that nodes get no record before their payload exists.
func (p *pass) findMissing(s *merritt.Seen, file string) {
	p.find(s.Node, "it has no record yet: its payload %s does not exist in %s; the next reading searches again",
		filepath.Join(s.Value("batchID"), s.Value("jobID"), file), p.o.Queue)
}

// payload opens the payload of a batch, or of a job of it, in Merritt's directory; nil if it is not there.
func (p *pass) payload(batch, name, file string) (*os.File, error) {
	if p.o.Queue == "" || batch == "" || file == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(p.o.Queue)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openPlain(root, filepath.Join(batch, name, file))
	if errors.Is(err, fs.ErrNotExist) && name != "" {
		f, err = openPlain(root, filepath.Join(batch, name, "producer", file))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// openPlain opens a regular file. Anything else, such as a named pipe, is an error; the call never waits for a writer.
func openPlain(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|durable.Plain, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s in %s is no regular file", name, root.Name())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// submitter returns the user of "user/Display Name".
func submitter(text string) string {
	user, _, _ := strings.Cut(text, "/")
	return user
}

// oneLine returns a value as one line: those of forms may have several.
func oneLine(s *merritt.Seen, key string) string { return record.OneLine(s.Value(key)) }

// digestOf returns the digest of a payload. As in Merritt, a half is none.
func digestOf(s *merritt.Seen) record.Digest {
	d := record.Digest{Type: oneLine(s, "digestType"), Value: oneLine(s, "digestValue")}
	if d.Type == "" || d.Value == "" {
		return record.Digest{}
	}
	return d
}

// localIDs returns the local ids in a text, each once.
func localIDs(text string) (all []string) {
	for id := range strings.SplitSeq(text, ";") {
		if id = strings.TrimSpace(id); id != "" && !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}
