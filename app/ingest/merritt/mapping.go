// Package merritt runs ingest beside a Merritt system: batches, jobs and access requests are shown in Merritt's nodes
// in ZooKeeper, and follow what the programs of Merritt do there.
//
// Package store/zookeeper/merritt has the nodes. This package has what they mean for the records of ingest: which keys
// of JSON a specification becomes (mapping.go), which events a change of the nodes is (follow.go), and how records are
// made of batches and jobs that others created (adopt.go).
package merritt

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/access"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// types are the types of submissions as Merritt writes them.
var types = map[string]string{
	ingest.TypeFile: "file", ingest.TypeContainer: "container", ingest.TypeObjectManifest: "manifest",
	ingest.TypeBatchManifest: "batchManifest", ingest.TypeContainerBatchManifest: "batchManifestContainer",
	ingest.TypeFileBatchManifest: "batchManifestFile",
}

// typeOf returns the type of a submission of Merritt, "" if it is unknown: it is found out then.
func typeOf(theirs string) string {
	for ours, name := range types {
		if name == theirs {
			return ours
		}
	}
	return ""
}

// dateFormat is the format of submissionDate in the submission of a batch, that of a Java date.
const dateFormat = "Mon Jan 02 15:04:05 MST 2006"

// unnamed is the submitter of a batch that names none: Merritt's programs require one.
const unnamed = "stagepost"

// Mapping returns how the records of ingest are shown in Merritt's nodes. The profiles have the collections that a
// hold of a group locks.
func Mapping(profiles profile.Source) merritt.Mapping {
	return merritt.Mapping{
		Batch: record.BatchKind, Job: record.JobKind, Access: access.Kind,
		Submission: submission, Configuration: configuration, Identifiers: identifiers,
		Space: space, Token: token, Workable: workable,
		Large: func(j *job.Job) bool { return slices.Contains(j.Tags, access.LargeTag) },
		Holds: func(s job.Scope) []merritt.Lock { return locksOf(profiles, s) },
	}
}

// submission returns the submission of a batch. A specification that cannot be read has none of its texts.
func submission(j *job.Job) merritt.Values {
	var s record.BatchSpec
	_ = json.Unmarshal(j.Spec, &s)
	v := merritt.Values{
		"batchID": "bid-" + strings.ToLower(string(j.ID)), "profile": cmp.Or(s.Profile, profile.Default),
		"type": cmp.Or(types[s.Type], "file"), "size": s.Bytes(), "filename": cmp.Or(s.Filename, "payload"),
		"update": s.Update, "submitter": cmp.Or(s.Submitter, unnamed),
		"submissionDate": j.Created.Format(dateFormat), "notificationFormat": "xml",
	}
	set(v, map[string]string{"title": s.Title, "creator": s.Creator, "date": s.Date, "objectID": s.PrimaryID,
		"localID": strings.Join(s.LocalIDs, ";"), "notification": s.Notification, "digestType": s.DigestType,
		"digestValue": s.DigestValue, "note": s.Note})
	set(v, described(&s.Submission))
	return v
}

// described returns what a submission has about its objects beyond their identity. Merritt has one text for each
// element of Dublin Core.
func described(s *api.Submission) map[string]string {
	texts := map[string]string{"DataCiteResourceType": s.ResourceType}
	for element, values := range s.DublinCore {
		texts[coreKey(element)] = strings.Join(values, "; ")
	}
	if s.RetainTarget {
		texts["retainTargetURL"] = "true"
	}
	return texts
}

// coreKey returns the key of an element of Dublin Core: "DCtitle".
func coreKey(element string) string { return "DC" + element }

// description returns what a submission of a batch or a configuration of a job of Merritt has about its objects beyond
// their identity, nil if it has nothing.
func description(s *merritt.Seen) *record.Description {
	d := record.Description{ResourceType: ingest.LooseResourceType(s.Value("DataCiteResourceType")),
		RetainTarget: strings.EqualFold(s.Value("retainTargetURL"), "true")}
	for _, element := range ingest.Elements() {
		if text := oneLine(s, coreKey(element)); text != "" {
			if d.DublinCore == nil {
				d.DublinCore = map[string][]string{}
			}
			d.DublinCore[element] = []string{text}
		}
	}
	if d.DublinCore == nil && d.ResourceType == "" && !d.RetainTarget {
		return nil
	}
	return &d
}

// set adds the texts that are not empty.
func set(v merritt.Values, texts map[string]string) {
	for key, text := range texts {
		if text != "" {
			v[key] = text
		}
	}
}

// configuration returns the configuration of a job, with what was found out about its object, and what the submission
// of its batch has about it.
func configuration(j, batch *job.Job) merritt.Values {
	s, _ := record.SpecOf(j)
	v := merritt.Values{
		"batchID": "bid-" + strings.ToLower(string(j.Parent)), "jobID": "jid-" + strings.ToLower(string(j.ID)),
		"profile": cmp.Or(s.Profile, profile.Default), "type": cmp.Or(types[s.Type], "file"),
		"filename": cmp.Or(s.Filename, "payload"), "update": s.Update, "submitter": cmp.Or(s.Submitter, unnamed),
		"submissionDate": j.Created.Format(time.RFC3339), "notificationFormat": "xml",
	}
	texts := map[string]string{"title": s.Title, "creator": s.Creator, "date": s.Date, "objectID": s.PrimaryID,
		"localID": strings.Join(s.LocalIDs, ";"), "digestType": s.Digest.Type, "digestValue": s.Digest.Value,
		"note": s.Note}
	if d, err := record.DataOf(j); err == nil {
		if id, _ := d.Object(); id != nil {
			texts["title"], texts["creator"] = cmp.Or(id.Title, s.Title), cmp.Or(id.Creator, s.Creator)
			texts["date"], texts["objectID"] = cmp.Or(id.Date, s.Date), id.ARK
		}
	}
	set(v, texts)
	if s.Described && batch != nil {
		var of record.BatchSpec
		_ = json.Unmarshal(batch.Spec, &of)
		set(v, described(&of.Submission))
	}
	return v
}

func identifiers(j *job.Job) merritt.Identifiers {
	s, _ := record.SpecOf(j)
	ids := merritt.Identifiers{Primary: s.PrimaryID, Local: s.LocalIDs}
	if d, err := record.DataOf(j); err == nil {
		if id, _ := d.Object(); id != nil {
			ids.Primary = id.ARK
			ids.Local = append(slices.Clone(ids.Local), missing(id.LocalIDs, ids.Local)...)
		}
	}
	return ids
}

// missing returns the texts of a list that another one lacks.
func missing(of, from []string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(id string) bool { return slices.Contains(from, id) })
}

func space(j *job.Job) int64 {
	d, _ := record.DataOf(j)
	return d.Space
}

// tokenStates are the numbers by which Merritt reports the state of an access request.
var tokenStates = map[string]int{string(record.Completed): 200, string(record.Failed): 500}

// token returns what an access request shows. It is named by its job: the token that fetches the package is a secret,
// and the nodes are none.
func token(j *job.Job) merritt.Token {
	return merritt.Token{Status: cmp.Or(tokenStates[string(j.State)], 201), Token: string(j.ID), Bytes: j.Bytes,
		Message: cmp.Or(j.Message, "Request queued, use token to check status")}
}

// workable returns why the server cannot work on a job or batch. The report of a batch of Merritt needs no payload: the
// program that has locked the batch writes it. Without a directory of payloads, batches of Merritt are left to Merritt.
func (o *Options) workable(j *job.Job) string {
	made := strings.HasPrefix(j.Key, merritt.KeyOf(""))
	switch reports := j.State == record.Reporting || j.State == record.UpdateReporting; {
	case !made || j.Kind != record.BatchKind || !reports:
		return workable(j)
	case o.Queue == "":
		return "Merritt's programs report on the batches that they created " +
			"(with ingest.merritt.queue, this server does so too)"
	}
	return ""
}

// workable returns why the server cannot work on a job or batch before its report: the payload of what a program of
// Merritt created is with that program.
func workable(j *job.Job) string {
	if !strings.HasPrefix(j.Key, merritt.KeyOf("")) {
		return ""
	}
	const why = "this server had no payload when it made the record: Merritt's programs continue with it " +
		"(ingest.merritt.queue names the directory where they keep payloads; it must be set and readable before that)"
	switch j.Kind {
	case record.BatchKind:
		var s record.BatchSpec
		if json.Unmarshal(j.Spec, &s) != nil || s.Payload.SHA256 == "" {
			return why
		}
	case record.JobKind:
		d, _ := record.DataOf(j)
		if s, err := record.SpecOf(j); err != nil || s.URL == "" && s.Size < 0 && !d.Taken {
			return why
		}
	default:
		return "the request is one of Merritt's, whose programs make its package"
	}
	return ""
}

// locksOf returns the locks of Merritt that are a hold.
func locksOf(profiles profile.Source, s job.Scope) (locks []merritt.Lock) {
	switch (job.Scope{Tag: s.Tag, Group: s.Group}) {
	case s:
	default:
		return nil // it selects fewer jobs than a lock would
	}
	switch {
	case s.Tag == ingest.QueueTag && s.Group == "":
		return []merritt.Lock{merritt.IngestPaused}
	case s.Tag == access.SmallTag && s.Group == "":
		return []merritt.Lock{merritt.AccessSmallPaused}
	case s.Tag == access.LargeTag && s.Group == "":
		return []merritt.Lock{merritt.AccessLargePaused}
	case s.Group == "" || s.Tag != "":
		return nil
	}
	for _, id := range profiles.IDs() {
		if p, ok := profiles.Get(id); ok && p.Group() == s.Group {
			locks = append(locks, merritt.CollectionLock(id))
		}
	}
	return locks
}

// scopes returns the holds that locks of Merritt are, each with the first of its locks.
func scopes(profiles profile.Source, locks []merritt.Lock) map[job.Scope]merritt.Lock {
	all := map[job.Scope]merritt.Lock{}
	candidates := []job.Scope{{Tag: ingest.QueueTag}, {Tag: access.SmallTag}, {Tag: access.LargeTag}}
	for _, id := range profiles.IDs() {
		if p, ok := profiles.Get(id); ok && p.Group() != "" {
			candidates = append(candidates, job.Scope{Group: p.Group()})
		}
	}
	for _, s := range candidates {
		for _, lock := range locksOf(profiles, s) {
			if _, found := all[s]; !found && slices.Contains(locks, lock) {
				all[s] = lock
			}
		}
	}
	return all
}
