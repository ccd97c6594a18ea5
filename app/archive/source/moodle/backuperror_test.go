package moodle_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/directory"
	"github.com/stagepost/stagepost/app/archive/source/moodle"
	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
)

// TestBackupErrors has what a Moodle answers when it makes no backup.
func TestBackupErrors(t *testing.T) {
	for name, c := range map[string]struct {
		set       func(f *fixture)
		code, msg string
	}{
		"control":  {func(*fixture) {}, "", ""},
		"no login": {func(f *fixture) { f.o.Login = moodle.Login{} }, "unsupported", "set the name and the password"},
		"password": {func(f *fixture) { f.o.Login.Password = "wrong" }, "invalidlogin", "Invalid login"},
		"no right": {func(f *fixture) { f.site.Backups.Forbidden = true }, "nopermissions", "backup:backupcourse"},
		"policy":   {func(f *fixture) { f.site.Backups.Policy = true }, "nopermissions", "/admin/tool/policy/"},
		"other server": {func(f *fixture) { f.site.Backups.OtherHost = "https://sso.example.org/" }, "",
			"sso.example.org"},
		"wrong id": {func(f *fixture) { f.site.Backups.ID = func() string { return "x" } }, "", "has no id"},
		"no progress": {func(f *fixture) { f.lack("core_backup_get_async_backup_progress") }, "unsupported",
			"core_backup_get_async_backup_progress"},
		"no files": {func(f *fixture) { f.lack("core_files_get_files") }, "unsupported", "core_files_get_files"},
		"failed":   {func(f *fixture) { f.site.Backups.Fails = true }, "backupfailed", ""},
		"failed async": {func(f *fixture) { f.site.Backups.Fails, f.site.Backups.Async = true, true }, "backupfailed",
			"status 900"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c.set(f)
			f.restart()
			err := f.run()
			if name == "control" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var e *source.Error
			if !errors.As(err, &e) || e.Temporary() || e.Code != c.code ||
				!strings.Contains(err.Error(), c.msg) || strings.Contains(err.Error(), replay.Password) {
				t.Errorf("got %v", err)
			}
			if len(f.out.Names()) != 0 {
				t.Errorf("got %q", f.out.Names())
			}
			if n := f.site.Calls("/login/index.php"); name == "password" && n != 3 {
				t.Errorf("%d requests of the login page: a wrong password is sent once", n)
			}
		})
	}
}

// lack removes a function from the web service.
func (f *fixture) lack(function string) {
	f.t.Helper()
	if err := f.site.Edit("core_webservice_get_site_info", `"`+function+`"`, `"other"`); err != nil {
		f.t.Fatal(err)
	}
}

// TestBackupExpired: a session that ends is renewed, before the form and between form and start.
func TestBackupExpired(t *testing.T) {
	f := newFixture(t)
	if err := f.step(); err != nil {
		t.Fatal(err)
	}
	f.site.Expire()
	expired := 0
	f.site.Intercept(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		if r.PostForm.Get("oneclickbackup") != "" && expired == 0 {
			expired++
			f.site.Expire()
		}
		return false
	})
	if err := f.step(); err != nil {
		t.Fatal(err)
	}
	if expired != 1 || len(f.site.Started()) != 1 {
		t.Fatalf("expired %d times, started %q", expired, f.site.Started())
	}
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	f.check("expired")
}

// TestBackupDropped: a request that the Moodle forgot starts no other backup.
func TestBackupDropped(t *testing.T) {
	f := newFixture(t)
	if err := f.step(); err != nil {
		t.Fatal(err)
	}
	f.site.Drop()
	err := f.run()
	if !errors.Is(err, source.ErrBackupGone) || len(f.site.Started()) != 0 {
		t.Errorf("got %v, %q", err, f.site.Started())
	}
	f.saved = nil
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	f.check("a new request")
}

// TestBackupDroppedLate: the Moodle forgets the request after it was asked for its state. The form that it then gives
// would start another backup.
func TestBackupDroppedLate(t *testing.T) {
	f := newFixture(t)
	if err := f.step(); err != nil {
		t.Fatal(err)
	}
	f.site.Intercept(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		if r.Form.Get("backup") != "" {
			f.site.Intercept(nil)
			f.site.Drop()
		}
		return false
	})
	if err := f.step(); !errors.Is(err, source.ErrBackupGone) || len(f.site.Started()) != 0 {
		t.Errorf("got %v, %q", err, f.site.Started())
	}
}

// TestBackupPending: while another backup of the account waits, there is no form. It is asked for later.
func TestBackupPending(t *testing.T) {
	f := newFixture(t)
	f.site.Backups.Async = true
	for range 2 {
		if err := f.step(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.source.PrepareBackup(t.Context(), replay.Course, "")
	var e *source.Error
	if !errors.As(err, &e) || !e.Temporary() || e.After != time.Minute {
		t.Errorf("got %v", err)
	}
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	f.check("later")
}

// TestBackupContents: a file whose index, digests or ids are wrong is not kept.
func TestBackupContents(t *testing.T) {
	for name, c := range map[string]struct {
		activity string
		alter    func(*replay.Made)
		bytes    func([]byte) []byte
		text     string
		gone     bool
	}{
		"control":  {},
		"id":       {alter: func(m *replay.Made) { m.ID = strings.Repeat("0", 32) }, text: "gone", gone: true},
		"course":   {alter: func(m *replay.Made) { m.Course = "7" }, text: "it is of the course 7"},
		"type":     {alter: func(m *replay.Made) { m.Type = "section" }, text: "it is of the type section"},
		"activity": {activity: replay.Quiz, alter: func(m *replay.Made) { m.Activity = replay.Forum }, text: "[21]"},
		"cut":      {bytes: func(b []byte) []byte { return b[:len(b)-100] }, text: "damaged"},
		"bit":      {bytes: func(b []byte) []byte { b = slices.Clone(b); b[len(b)/2] ^= 1; return b }, text: "damaged"},
		"empty":    {bytes: func([]byte) []byte { return []byte("PK") }, text: "damaged"},
		"HTML":     {bytes: func([]byte) []byte { return []byte("<html>") }, text: "neither a gzip nor a zip"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.activity, f.site.Backups.Alter, f.site.Backups.Bytes = c.activity, c.alter, c.bytes
			err := f.run()
			if name == "control" {
				if err != nil {
					t.Error(err)
				}
				f.check(name)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.text) || errors.Is(err, source.ErrBackupGone) != c.gone {
				t.Errorf("got %v", err)
			}
			if len(f.out.Names()) != 0 {
				t.Errorf("kept %q", f.out.Names())
			}
		})
	}
}

// TestPath: a Moodle whose address has a path is archived and makes backups like any other.
func TestPath(t *testing.T) {
	f := newFixture(t)
	f.site.Path = "/moodle"
	f.o.URL += "/moodle/"
	f.restart()
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	f.check("below a path")
	if _, err := f.source.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, a := range activities(t, f.source) {
		fetch(t, f.source, a)
	}
}

// TestPrinted: passwords and tokens are not printed.
func TestPrinted(t *testing.T) {
	f := newFixture(t)
	text := fmt.Sprintf("%v %+v %#v %s %v %#v", f.o, f.o, f.o, f.o, f.o.Login, f.o.Login)
	if strings.Contains(text, replay.Password) || strings.Contains(text, replay.Token) ||
		!strings.Contains(text, "***") {
		t.Errorf("got %s", text)
	}
}

// TestBackupsOf: only a Moodle makes backups by itself.
func TestBackupsOf(t *testing.T) {
	if f := newFixture(t); source.BackupsOf(f.source) == nil {
		t.Error("a Moodle has no backups")
	}
	d, err := directory.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if b := source.BackupsOf(d); b != nil {
		t.Errorf("a directory has backups %v", b)
	}
}

// TestListedBackups: backups that exist are listed, latest first, and fetched without a login.
func TestListedBackups(t *testing.T) {
	f := newFixture(t)
	f.o.Login = moodle.Login{}
	f.restart()
	if reason, err := f.source.CanBackup(t.Context()); err != nil || reason == "" {
		t.Errorf("got %q, %v", reason, err)
	}
	if _, err := f.site.Backup(); err != nil {
		t.Fatal(err)
	}
	all, err := f.source.Backups(t.Context(), replay.Course, "")
	if err != nil || len(all) != 3 || !all[0].Created.After(all[1].Created) || !all[1].Created.After(all[2].Created) {
		t.Fatalf("got %+v, %v", all, err)
	}
	for _, one := range all {
		if _, err := f.source.FetchListed(t.Context(), one, f.scratch, f.out); err != nil {
			t.Errorf("%s: %v", one.Name, err)
		}
	}
	if got := f.out.Names(); len(got) != 3 {
		t.Errorf("got %q", got)
	}
	if all, err = f.source.Backups(t.Context(), replay.Course, replay.Quiz); err != nil || len(all) != 0 {
		t.Errorf("got %+v, %v", all, err)
	}
}

// TestBackupWithoutPeople: a backup that would have no data of people, or other names of them, is refused before it is
// started: the Moodle would put it among the private files of the account. The control has the same boxes unlocked, and
// a locked box of another setting, which is a warning.
func TestBackupWithoutPeople(t *testing.T) {
	type boxes = map[string][2]string
	for _, c := range []struct {
		name  string
		boxes boxes
		want  string // empty: it is made
	}{
		{"users locked", boxes{"users": {"0", "locked"}}, "moodle/backup:userinfo"},
		{"users absent", boxes{"users": {"", "absent"}}, "moodle/backup:userinfo"},
		{"anonymize locked", boxes{"anonymize": {"1", "locked"}}, "Anonymize"},
		{"control", boxes{"users": {"0", ""}, "anonymize": {"1", ""}, "files": {"0", "locked"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.site.Backups.Settings = c.boxes
			err := f.run()
			if c.want != "" {
				noPeople(t, f, err, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r := f.request()
			got := f.site.Settings(r.ID)
			if got["files"] != "0" || got["users"] != "1" || got["anonymize"] != "0" {
				t.Errorf("got %v", got)
			}
			if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "files") {
				t.Errorf("got %q", r.Warnings)
			}
		})
	}
	f := newFixture(t) // the right is taken away after the request
	if err := f.step(); err != nil {
		t.Fatal(err)
	}
	f.site.Backups.NoUsers = true
	noPeople(t, f, f.run(), "moodle/backup:userinfo")
}

// noPeople checks that a backup was refused with a reason, and that none was started.
func noPeople(t *testing.T, f *fixture, err error, want string) {
	t.Helper()
	var e *source.Error
	if !errors.As(err, &e) || e.Code != "nouserinfo" || e.Temporary() || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "private files") {
		t.Errorf("got %v", err)
	}
	if got := f.site.Started(); len(got) != 0 {
		t.Errorf("%q were started", got)
	}
}
