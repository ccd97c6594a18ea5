package moodle_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/moodle"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
)

const (
	filesPage  = "/backup/backupfilesedit.php"
	draftCalls = "/repository/draftfiles_ajax.php"
)

// fetched gives a fixture whose backup was fetched, and the names of the other backups of the area: the recorded ones
// and one that another account made afterwards.
func fetched(t *testing.T, change func(*fixture)) (*fixture, *source.BackupRequest, []string) {
	t.Helper()
	f := newFixture(t)
	if change != nil {
		change(f)
	}
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	f.pass(2 * time.Minute)
	if _, err := f.site.Backup(); err != nil {
		t.Fatal(err)
	}
	r := f.request()
	if r.File == nil || r.File.Name == "" || len(r.File.SHA1) != 40 || r.File.Size == 0 || r.File.Created.IsZero() {
		t.Fatalf("got the file %+v", r.File)
	}
	others := slices.DeleteFunc(f.site.BackupFiles(f.activity), func(name string) bool { return name == r.File.Name })
	return f, r, others
}

// deleted checks that the file of a request was deleted, and nothing else.
func (f *fixture) deleted(when string, r *source.BackupRequest, others []string) {
	f.t.Helper()
	if got := f.site.Deleted(); !slices.Equal(got, []string{r.File.Name}) {
		f.t.Errorf("%s: deleted %q, want %q", when, got, r.File.Name)
	}
	if got := f.site.BackupFiles(f.activity); !slices.Equal(got, others) {
		f.t.Errorf("%s: left %q, want %q", when, got, others)
	}
}

// kept checks that nothing was deleted.
func (f *fixture) kept(when string) {
	f.t.Helper()
	if got := f.site.Deleted(); len(got) > 0 {
		f.t.Errorf("%s: deleted %q", when, got)
	}
}

func TestDeleteBackup(t *testing.T) {
	for _, async := range []bool{false, true} {
		for _, activity := range []string{"", replay.Quiz} {
			t.Run(fmt.Sprintf("async=%t,activity=%s", async, activity), func(t *testing.T) {
				f, r, others := fetched(t, func(f *fixture) { f.site.Backups.Async, f.activity = async, activity })
				f.restart()
				if err := f.source.DeleteBackup(t.Context(), r, f.scratch); err != nil {
					t.Fatal(err)
				}
				f.deleted("once", r, others)
				n := f.site.Calls(filesPage)
				if err := f.source.DeleteBackup(t.Context(), r, f.scratch); err != nil {
					t.Fatal(err)
				}
				f.deleted("twice", r, others)
				if f.site.Calls(filesPage) != n {
					t.Error("the page was requested for a file that does not exist")
				}
			})
		}
	}
}

// TestDeleteBackupCrashes breaks each request, before it arrives and after it was handled, with a crash after each:
// between the removal from the draft and the form, too. The file is deleted once, and no other one.
func TestDeleteBackupCrashes(t *testing.T) {
	for _, kind := range []string{"before", "after"} {
		for at := 1; ; at++ {
			f, r, others := fetched(t, nil)
			first := f.n
			f.faults = func(n int) string {
				if n == first+at {
					return kind
				}
				return ""
			}
			var err error
			for try := 0; try == 0 || try < 5 && err != nil; try++ {
				f.restart()
				err = f.source.DeleteBackup(t.Context(), r, f.scratch)
				var e *source.Error
				if err != nil && (!errors.As(err, &e) || !e.Temporary()) {
					t.Fatalf("%s request %d: %v", kind, at, err)
				}
			}
			if err != nil {
				t.Fatalf("%s request %d: %v", kind, at, err)
			}
			f.deleted(fmt.Sprintf("%s request %d", kind, at), r, others)
			if f.n < first+at {
				if at < 8 {
					t.Errorf("only %d requests", at)
				}
				break
			}
		}
	}
}

// TestDeleteBackupOther: a file that is not the one that was fetched stays, although it has the same name.
func TestDeleteBackupOther(t *testing.T) {
	for name, change := range map[string]func(*fixture, *source.BackupRequest){
		"control": nil,
		"content": func(f *fixture, r *source.BackupRequest) {
			f.site.SetFile("44/backup/course/"+r.File.Name, bytes.Repeat([]byte("x"), int(r.File.Size)))
		},
		"size":    func(_ *fixture, r *source.BackupRequest) { r.File.Size++ },
		"time":    func(_ *fixture, r *source.BackupRequest) { r.File.Created = r.File.Created.Add(time.Second) },
		"context": func(_ *fixture, r *source.BackupRequest) { r.Context = "45" },
	} {
		t.Run(name, func(t *testing.T) {
			f, r, others := fetched(t, nil)
			if change != nil {
				change(f, r)
			}
			err := f.source.DeleteBackup(t.Context(), r, f.scratch)
			if change == nil {
				if err != nil {
					t.Fatal(err)
				}
				f.deleted(name, r, others)
				return
			}
			var e *source.Error
			if !errors.Is(err, source.ErrBackupOther) || !errors.As(err, &e) || e.Temporary() {
				t.Errorf("got %v", err)
			}
			f.kept(name)
		})
	}
}

// TestDeleteBackupSameMinute: another backup of the same minute replaced the file. It stays.
func TestDeleteBackupSameMinute(t *testing.T) {
	f := newFixture(t)
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	r := f.request()
	before := f.site.BackupFiles("")
	f.mu.Lock()
	f.now = r.File.Created.Add(time.Second)
	f.mu.Unlock()
	if _, err := f.site.Backup(); err != nil {
		t.Fatal(err)
	}
	if got := f.site.BackupFiles(""); !slices.Equal(got, before) {
		t.Fatalf("the names differ: %q", got)
	}
	if err := f.source.DeleteBackup(t.Context(), r, f.scratch); !errors.Is(err, source.ErrBackupOther) {
		t.Errorf("got %v", err)
	}
	f.kept("replaced")
}

// TestDeleteBackupMeanwhile: a backup of another account that comes after the page was made, which the form would
// delete, ends the attempt. The next one succeeds.
func TestDeleteBackupMeanwhile(t *testing.T) {
	for _, action := range []string{"delete", "list"} {
		f, r, others := fetched(t, nil)
		f.pass(5 * time.Minute)
		f.site.Intercept(func(_ http.ResponseWriter, r *http.Request, what string) bool {
			if what == draftCalls && r.Form.Get("action") == action {
				f.site.Intercept(nil)
				if _, err := f.site.Backup(); err != nil {
					t.Error(err)
				}
			}
			return false
		})
		err := f.source.DeleteBackup(t.Context(), r, f.scratch)
		var e *source.Error
		if !errors.As(err, &e) || !e.Temporary() || e.Code != "changed" {
			t.Errorf("%s: got %v", action, err)
		}
		f.kept(action)
		late := slices.DeleteFunc(f.site.BackupFiles(""), func(name string) bool {
			return name == r.File.Name || slices.Contains(others, name)
		})
		if len(late) != 1 {
			t.Fatalf("%s: no other backup came: %q", action, late)
		}
		if err := f.source.DeleteBackup(t.Context(), r, f.scratch); err != nil {
			t.Error(err)
		}
		f.deleted(action, r, slices.Sorted(slices.Values(append(others, late...))))
	}
}

// TestDeleteBackupExpired: a session that ends between any two requests is renewed.
func TestDeleteBackupExpired(t *testing.T) {
	for _, at := range []string{"page", "delete", "list", "form"} {
		f, r, others := fetched(t, nil)
		expired := false
		f.site.Intercept(func(_ http.ResponseWriter, r *http.Request, what string) bool {
			here := map[string]bool{
				"page": what == filesPage && r.Method == http.MethodGet, "form": r.PostForm.Get("submitbutton") != "",
				"delete": r.Form.Get("action") == "delete", "list": r.Form.Get("action") == "list",
			}[at]
			if here && !expired {
				expired = true
				f.site.Expire()
			}
			return false
		})
		if err := f.source.DeleteBackup(t.Context(), r, f.scratch); err != nil || !expired {
			t.Errorf("%s: %v, expired: %t", at, err, expired)
		}
		f.deleted(at, r, others)
	}
}

// TestDeleteBackupRefused has what keeps a file from being deleted until a person changes something.
func TestDeleteBackupRefused(t *testing.T) {
	form := func(f *fixture, from, to string) {
		f.site.Intercept(func(w http.ResponseWriter, r *http.Request, what string) bool {
			if what != filesPage || r.Method != http.MethodGet {
				return false
			}
			page := `<form method="post"><input name="contextid" value="44"><input name="filearea" value="course">` +
				`<input name="component" value="backup"><input name="sesskey" value="k">` +
				`<input name="files_filemanager" value="4"><input type="submit" name="submitbutton"></form>`
			fmt.Fprint(w, strings.Replace(page, from, to, 1))
			return true
		})
	}
	for name, c := range map[string]struct {
		set       func(f *fixture)
		code, msg string
	}{
		"right":     {func(f *fixture) { f.site.Backups.NoDelete = true }, "nopermissions", "restore:uploadfile"},
		"view":      {func(f *fixture) { f.site.Backups.Forbidden = true }, "nopermissions", "backup:backupcourse"},
		"reference": {func(f *fixture) { f.site.Backups.Reference = true }, "", "reference"},
		"folder": {func(f *fixture) {
			if err := f.site.Edit("core_files_get_files_backup", `"isdir": false`, `"isdir": true`); err != nil {
				t.Fatal(err)
			}
		}, "", "folder"},
		"no login":    {func(f *fixture) { f.o.Login = moodle.Login{} }, "unsupported", "password"},
		"no form":     {func(f *fixture) { form(f, "files_filemanager", "other") }, "", "no form"},
		"other files": {func(f *fixture) { form(f, `"44"`, `"45"`) }, "", "other files"},
		"other area":  {func(f *fixture) { form(f, `"course"`, `"automated"`) }, "", "other files"},
		"no number":   {func(f *fixture) { form(f, `"4"`, `"x"`) }, "", "no number"},
		"no key":      {func(f *fixture) { form(f, `"k"`, `""`) }, "", "no key"},
		"no button":   {func(f *fixture) { form(f, "submitbutton", "cancel") }, "", "no button"},
	} {
		t.Run(name, func(t *testing.T) {
			f, r, _ := fetched(t, nil)
			c.set(f)
			f.restart()
			err := f.source.DeleteBackup(t.Context(), r, f.scratch)
			var e *source.Error
			if !errors.As(err, &e) || e.Temporary() || e.Code != c.code || !strings.Contains(err.Error(), c.msg) {
				t.Errorf("got %v", err)
			}
			f.kept(name)
		})
	}
}

// TestDeleteBackupUnfetched: the file of a backup that was not fetched is found by the id in it, never by its name.
func TestDeleteBackupUnfetched(t *testing.T) {
	f, r, others := fetched(t, nil)
	r.File = nil
	if err := f.source.DeleteBackup(t.Context(), r, f.scratch); err != nil || r.File == nil {
		t.Fatalf("got %+v, %v", r.File, err)
	}
	f.deleted("found", r, others)
	r.File = nil
	if err := f.source.DeleteBackup(t.Context(), r, f.scratch); err != nil || r.File != nil {
		t.Errorf("got %+v, %v", r.File, err)
	}
	if got := f.site.BackupFiles(""); !slices.Equal(got, others) {
		t.Errorf("left %q, want %q", got, others)
	}
}

// TestDeleteBackupDraft: nothing is deleted if the draft lacks another file of the area.
func TestDeleteBackupDraft(t *testing.T) {
	f, r, _ := fetched(t, nil)
	f.site.Intercept(func(w http.ResponseWriter, r *http.Request, _ string) bool {
		if r.Form.Get("action") != "list" {
			return false
		}
		fmt.Fprint(w, `{"list":[]}`)
		return true
	})
	var e *source.Error
	if err := f.source.DeleteBackup(t.Context(), r, f.scratch); !errors.As(err, &e) || e.Code != "changed" {
		t.Errorf("got %v", err)
	}
	f.kept("draft")
}
