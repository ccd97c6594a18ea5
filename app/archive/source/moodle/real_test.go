package moodle_test

import (
	"os"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle"
	"github.com/stagepost/stagepost/app/archive/source/sourcetest"
)

// TestRealMoodle archives a course of a real Moodle:
//
//	STAGEPOST_MOODLE_URL     address, such as https://moodle.example.org
//	STAGEPOST_MOODLE_TOKEN   of the web service
//	STAGEPOST_MOODLE_COURSE  id of a course
//	STAGEPOST_MOODLE_USER    name and password for a backup; empty: none is made
//	STAGEPOST_MOODLE_PASSWORD
func TestRealMoodle(t *testing.T) {
	course := os.Getenv("STAGEPOST_MOODLE_COURSE")
	o := moodle.Options{
		URL: os.Getenv("STAGEPOST_MOODLE_URL"), Token: os.Getenv("STAGEPOST_MOODLE_TOKEN"),
		Login: moodle.Login{
			User: os.Getenv("STAGEPOST_MOODLE_USER"), Password: os.Getenv("STAGEPOST_MOODLE_PASSWORD"),
		},
	}
	if o.URL == "" || o.Token == "" || course == "" {
		t.Skip("to test with a real Moodle, set STAGEPOST_MOODLE_URL, STAGEPOST_MOODLE_TOKEN, STAGEPOST_MOODLE_COURSE")
	}
	s, err := moodle.New(o)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := s.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %s, warnings %q", facts.Name, facts.Version, facts.Warnings)
	if _, err := s.Describe(t.Context(), course, source.Settings{}, &sourcetest.Out{}); err != nil {
		t.Errorf("describe: %v", err)
	}
	all, err := s.Activities(t.Context(), course)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if reason := s.Archivable(a); reason != "" {
			t.Logf("%s (%s): %s", a.Name, a.Module, reason)
			continue
		}
		realActivity(t, s, a)
	}
	if o.Login.User != "" {
		realBackup(t, s, course)
	}
}

// realActivity archives an activity twice, which gives the same files.
func realActivity(t *testing.T, s *moodle.Source, a source.Activity) {
	t.Helper()
	before, err := s.Fingerprint(t.Context(), a)
	if err != nil {
		t.Errorf("%s (%s): %v", a.Name, a.Module, err)
		return
	}
	var names [2]int
	for i := range names {
		out := &sourcetest.Out{}
		p, err := sourcetest.Archive(t.Context(), s, a, out)
		if err != nil {
			t.Errorf("%s (%s): %v", a.Name, a.Module, err)
			return
		}
		checkPages(t, out)
		names[i] = len(out.Names())
		t.Logf("%s (%s): %d items, %d files, warnings %q", a.Name, a.Module, len(p.Items), names[i], p.Warnings)
	}
	after, err := s.Fingerprint(t.Context(), a)
	if err != nil || after != before || names[0] != names[1] {
		t.Errorf("%s (%s): fingerprints %s and %s, %d and %d files, %v", a.Name, a.Module, before, after, names[0],
			names[1], err)
	}
}

// realBackup makes a backup of a course, fetches it, and deletes it in the Moodle.
func realBackup(t *testing.T, s *moodle.Source, course string) {
	t.Helper()
	r, err := s.PrepareBackup(t.Context(), course, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("backup %s, warnings %q", r.ID, r.Warnings)
	if err := s.StartBackup(t.Context(), r, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	for state := source.BackupNew; state != source.BackupDone; {
		if state, err = s.BackupState(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(5 * time.Second): // a real Moodle gives no signal
		}
	}
	scratch, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer scratch.Close()
	b, err := s.FetchBackup(t.Context(), r, scratch, &sourcetest.Out{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", b)
	if err := s.DeleteBackup(t.Context(), r, scratch); err != nil {
		t.Errorf("delete %s: %v", r.File.Name, err)
	}
}
