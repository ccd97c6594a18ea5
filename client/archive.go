package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/job"
)

const archivePrefix = "/api/v1/archive"

func archivePath(id job.ID, more string) string {
	return archivePrefix + "/archives/" + url.PathEscape(string(id)) + more
}

// SubmitArchive creates a job that archives a course, or some of its activities. With a key the same request gives the
// same job.
func (c *Client) SubmitArchive(ctx context.Context, o ArchiveOrder) (Job, error) {
	if o.Key != "" {
		ctx = context.WithValue(ctx, repeatKey{}, true)
	}
	return send[Job](ctx, c, http.MethodPost, archivePrefix+"/jobs", nil, o)
}

// PlanArchive returns what a request would archive. It starts nothing.
func (c *Client) PlanArchive(ctx context.Context, r ArchiveRequest) (ArchivePlan, error) {
	ctx = context.WithValue(ctx, repeatKey{}, true)
	return send[ArchivePlan](ctx, c, http.MethodPost, archivePrefix+"/plan", nil, r)
}

// ArchiveSources returns the sources that can be archived, and the storage locations.
func (c *Client) ArchiveSources(ctx context.Context) (ArchiveSources, error) {
	return get[ArchiveSources](ctx, c, archivePrefix+"/sources", nil)
}

// ArchiveOverview compares the activities of a course with their newest archives.
func (c *Client) ArchiveOverview(ctx context.Context, source, course string) (ArchiveOverview, error) {
	return get[ArchiveOverview](ctx, c, archivePrefix+"/sources/"+url.PathEscape(source)+"/courses/"+
		url.PathEscape(course), nil)
}

// ArchiveQuery selects archives. Empty fields select all.
type ArchiveQuery struct {
	Source, Course, Activity string
	Owner                    string
	Outcome                  string // making, complete, failed or deleted
	After                    string // the Next of the page before
	Limit                    int
}

// Archives returns a page of archives, the newest first.
func (c *Client) Archives(ctx context.Context, q ArchiveQuery) (Archives, error) {
	v := url.Values{}
	for name, value := range map[string]string{
		"source": q.Source, "course": q.Course, "activity": q.Activity, "owner": q.Owner, "outcome": q.Outcome,
		"after": q.After,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return get[Archives](ctx, c, archivePrefix+"/archives", number(v, "limit", int64(q.Limit)))
}

// Archive returns all that is known of an archive.
func (c *Client) Archive(ctx context.Context, id job.ID) (ArchiveDetails, error) {
	return get[ArchiveDetails](ctx, c, archivePath(id, ""), nil)
}

// ArchiveArtifacts returns a page of the files of an archive; after is the Next of the page before.
func (c *Client) ArchiveArtifacts(ctx context.Context, id job.ID, after string, limit int) (ArchiveArtifacts, error) {
	v := url.Values{}
	if after != "" {
		v.Set("after", after)
	}
	return get[ArchiveArtifacts](ctx, c, archivePath(id, "/artifacts"), number(v, "limit", int64(limit)))
}

// RecalledError is a file that a slow storage location recalls: it can be read later.
type RecalledError struct{ ArchiveRecall }

// Error names the file.
func (e *RecalledError) Error() string { return e.Path + ": " + e.Message }

// FetchArtifact opens a file of an archive from a byte on. The caller closes body; an error of kind Unavailable while
// reading may pass. A [*RecalledError] has the time after which to ask again.
func (c *Client) FetchArtifact(ctx context.Context, id job.ID, a ArchiveArtifact, from int64) (body io.ReadCloser,
	start int64, err error) {
	parts := strings.Split(a.Path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	r, err := c.request(ctx, http.MethodGet, archivePath(id, "/content/"+strings.Join(parts, "/")), nil, nil)
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Accept", "*/*")
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		r.Header.Set("If-Range", `"`+a.SHA256+`"`)
	}
	answer, err := c.once(r) // the caller counts the breaks
	if err != nil {
		return nil, 0, err
	}
	switch answer.StatusCode {
	case http.StatusAccepted:
		e := &RecalledError{ArchiveRecall{Job: id, Path: a.Path, Message: "it is being recalled"}}
		e.After, _ = strconv.Atoi(answer.Header.Get("Retry-After")) // without a number: at once
		return nil, 0, errors.Join(e, answer.Body.Close())
	case http.StatusPartialContent:
		begins, _, _ := strings.Cut(strings.TrimPrefix(answer.Header.Get("Content-Range"), "bytes "), "-")
		if start, err = strconv.ParseInt(begins, 10, 64); err != nil || start != from {
			err = job.Errorf(job.Internal, "fetch", "", "asked for bytes from %d on, got %.100q", from,
				answer.Header.Get("Content-Range"))
			return nil, 0, errors.Join(err, answer.Body.Close())
		}
	}
	return answer.Body, start, nil
}

// ArchivePREMIS streams the preservation metadata of an archive in a format, xml or json. The caller closes it.
func (c *Client) ArchivePREMIS(ctx context.Context, id job.ID, format string) (io.ReadCloser, error) {
	r, err := c.request(ctx, http.MethodGet, archivePath(id, "/premis"), url.Values{"format": {format}}, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "*/*")
	answer, err := c.do(r)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// ArchiveSchedules returns the schedules with their next time and their newest run.
func (c *Client) ArchiveSchedules(ctx context.Context) ([]ArchiveSchedule, error) {
	a, err := get[ArchiveSchedules](ctx, c, archivePrefix+"/schedules", nil)
	return a.Schedules, err
}

// StartSchedule starts a run of a schedule. With a key the same request gives the same run.
func (c *Client) StartSchedule(ctx context.Context, name string, s StartSchedule) (Job, error) {
	if s.Key != "" {
		ctx = context.WithValue(ctx, repeatKey{}, true)
	}
	return send[Job](ctx, c, http.MethodPost, archivePrefix+"/schedules/"+url.PathEscape(name)+"/runs", nil, s)
}

// HoldArchive puts a legal hold on an archive, and returns its holds.
func (c *Client) HoldArchive(ctx context.Context, id job.ID, h HoldArchive) (ArchiveHolds, error) {
	return send[ArchiveHolds](ctx, c, http.MethodPost, archivePath(id, "/holds"), nil, h)
}

// ReleaseArchive releases a legal hold on an archive, and returns its holds. The note must not be empty.
func (c *Client) ReleaseArchive(ctx context.Context, id job.ID, name, actor, note string) (ArchiveHolds, error) {
	v := url.Values{"note": {note}}
	if actor != "" {
		v.Set("actor", actor)
	}
	return call[ArchiveHolds](ctx, c, http.MethodDelete, archivePath(id, "/holds/"+url.PathEscape(name)), v, nil)
}

// DeleteArchive requests that an archive is deleted. Before its retention time has ended another person has to approve
// it.
func (c *Client) DeleteArchive(ctx context.Context, id job.ID, d DeleteArchive) (ArchiveDeletion, error) {
	return send[ArchiveDeletion](ctx, c, http.MethodPost, archivePath(id, "/deletion"), nil, d)
}

// ArchiveDeletions returns the requests to delete archives in a state, or all (empty).
func (c *Client) ArchiveDeletions(ctx context.Context, state string) ([]ArchiveDeletion, error) {
	v := url.Values{}
	if state != "" {
		v.Set("state", state)
	}
	a, err := get[ArchiveDeletions](ctx, c, archivePrefix+"/deletions", v)
	return a.Deletions, err
}

// DecideDeletion approves or refuses a request to delete an archive.
func (c *Client) DecideDeletion(ctx context.Context, request string, d DecideDeletion) (ArchiveDeletion, error) {
	return send[ArchiveDeletion](ctx, c, http.MethodPost, archivePrefix+"/deletions/"+url.PathEscape(request), nil, d)
}

// FindPeople finds people whose data archives contain.
func (c *Client) FindPeople(ctx context.Context, f FindPeople) (ArchivePeople, error) {
	return send[ArchivePeople](ctx, c, http.MethodPost, archivePrefix+"/people", nil, f)
}

// PersonData returns what archives have of a person.
func (c *Client) PersonData(ctx context.Context, p NamePerson) (ArchivePersonData, error) {
	return send[ArchivePersonData](ctx, c, http.MethodPost, archivePrefix+"/people/data", nil, p)
}

// ErasePerson removes a person from the catalog of archives. The record lists the archives that have data of the
// person.
func (c *Client) ErasePerson(ctx context.Context, e ErasePerson) (ArchiveErasure, error) {
	return send[ArchiveErasure](ctx, c, http.MethodPost, archivePrefix+"/people/erase", nil, e)
}
