package storetest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var tagTests = []test{
	{"kept as they are, whatever stands in them", tagKept},
	{"lists by tag and cause agree with the records", tagLists},
	{"lists of claimed and overdue jobs too, past a page of others", tagClaimed},
}

// oddTags are tags that a store may stumble over.
var oddTags = []string{`quoted"\`, "two words", "a,b", "queue=ümlaut", "new\nline", "\x00", strings.Repeat("long", 40),
	"[]", "'"}

func tagKept(w *harness) {
	var made []job.Job
	for i := range oddTags {
		made = append(made, w.step(tagged(oddTags[:i+1]...)))
	}
	twin := w.step(tagged("queue=a"))
	for range 2 {
		for i, j := range made {
			same(w, fmt.Sprintf("job %d", i), w.get(j.ID), j)
			same(w, "with "+oddTags[i], len(w.list(job.Query{Tag: oddTags[i]})), len(oddTags)-i)
		}
		w.restart()
	}
	got := w.claim("w1", 99)
	same(w, "all can be claimed", len(got), len(made)+1)
	for _, j := range got {
		c := w.move(j, "begin", lifecycle.Worker)
		if j.ID == twin.ID {
			c.Set.Tags = job.Tagged(oddTags...)
		}
		w.must(c)
	}
	same(w, "moved, and tagged on the way", w.get(twin.ID).Tags, job.Tagged(oddTags...))
	w.sound()
}

func tagLists(w *harness) {
	tags := append([]string{"queue=a", "queue=b", "place=main"}, oddTags[:3]...)
	causes := []string{"", "network", "space", strings.Repeat("a very long cause ", 10)}
	random := rand.New(rand.NewPCG(7, 7))
	some := func() (set []string) {
		for _, t := range tags {
			if random.IntN(3) == 0 {
				set = append(set, t)
			}
		}
		return job.Tagged(set...)
	}
	var list []job.Created
	for range 60 {
		list = append(list, w.made(Step, tagged(some()...),
			func(j *job.Job) { j.Cause = causes[random.IntN(len(causes))] }))
	}
	jobs := w.create(list...)
	for i := range 30 {
		j := w.get(jobs[random.IntN(len(jobs))].ID)
		f := job.Fields{Tags: some(), Cause: &causes[random.IntN(len(causes))]}
		if i%3 == 0 && j.State == waiting {
			w.must(w.move(j, "hold", lifecycle.Operator, sets(f)))
		} else {
			w.must(job.Change{Job: j.ID, Version: j.Version, At: w.now(), Set: f})
		}
	}
	for range 2 {
		all := w.list(job.Query{Oldest: true, Limit: 1000})
		for _, q := range tagQueries(tags, causes) {
			var want []job.ID
			for i := range all {
				if q.Matches(&all[i]) {
					want = append(want, all[i].ID)
				}
			}
			q.Oldest, q.Limit = true, 7
			var got []job.ID
			for {
				page, err := w.st.List(w.Context(), q)
				if err != nil {
					w.Fatal(err)
				}
				got = append(got, ids(page.Jobs)...)
				if q.After = page.Next; q.After == "" {
					break
				}
			}
			same(w, fmt.Sprintf("%+v", q), got, want)
		}
		w.restart()
	}
}

func tagQueries(tags, causes []string) []job.Query {
	list := []job.Query{{Tag: "unused"}, {Causes: []string{"unused"}}, {Causes: causes}}
	for i, t := range tags {
		list = append(list, job.Query{Tag: t}, job.Query{Tag: t, States: []lifecycle.State{parked}},
			job.Query{Tag: t, Causes: []string{causes[i%len(causes)], "space"}})
	}
	for _, c := range causes {
		list = append(list, job.Query{Causes: []string{c}}, job.Query{Causes: []string{c}, Ended: ptr(false)})
	}
	return list
}

// tagClaimed lists the jobs of a worker by other conditions, with more others than fit on the page.
func tagClaimed(w *harness) {
	var list []job.Created
	for i := range 60 {
		list = append(list, w.made(Step, func(j *job.Job) { j.Cause = "network" }, tagged(fmt.Sprint("queue=", i%2))))
	}
	list = append(list, w.made(Step, func(j *job.Job) { j.Cause = "space" }, tagged("queue=one", "place=main")))
	want := []job.ID{w.create(list...)[60].ID}
	same(w, "claimed", len(w.claim("w1", 999)), 61)
	for _, q := range []job.Query{{Tag: "place=main"}, {Causes: []string{"space"}}} {
		q.Worker, q.Limit = "w", 3
		same(w, fmt.Sprintf("%+v", q), ids(w.list(q)), want)
	}
	same(w, "a page of the others", len(w.list(job.Query{Worker: "w", Tag: "queue=0", Limit: 3})), 3)
}
