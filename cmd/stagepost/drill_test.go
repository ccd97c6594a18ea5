package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/format/ocfl"
	hostcli "github.com/stagepost/stagepost/host/cli"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

var drillActions = flag.Int("drill-actions", 60, "random actions of TestRestoreDrill")

// mostDrilled is how many of the backups that were made meanwhile TestRestoreDrill restores and starts a server on.
func mostDrilled() int { return min(10, 1+*drillActions/30) }

// TestRestoreDrill lets a server do random work, kills it again and again, and makes backups while it works. Every
// backup that was completed has all that was acknowledged before it began, is sound, and a server on it ends all jobs.
// In the end a backup is restored elsewhere, and every record, identifier, object, file and token is the same.
func TestRestoreDrill(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	d.start()
	for range *drillActions {
		d.act()
	}
	d.backing.Wait()
	d.settle()
	if len(d.made) == 0 {
		d.backUp()
		d.backing.Wait()
	}
	for _, b := range d.made {
		d.check(b)
	}
	d.v.kill(t)
	d.cli("admin", "backup", "--data", d.dir, "final")
	d.compare(filepath.Join(d.dir, "backups", "final"))
	d.killRestores(filepath.Join(d.dir, "backups", "final"))
	t.Logf("%d actions, %d kills, %d acknowledged batches, %d backups made while the server worked, %d ended by a kill",
		*drillActions, d.kills, len(d.acked), d.whole, d.broken)
}

// drill is a server that works, is killed and backed up.
type drill struct {
	t       *testing.T
	chance  *rand.Rand
	dir     string
	tokens  string // the file
	token   client.Secret
	v       *victim
	c       *client.Client
	next    int
	kills   int
	backing sync.WaitGroup

	mu     sync.Mutex // guards the rest
	acked  []job.ID   // batches
	access []string   // tokens of packages
	made   []drilled
	whole  int
	broken int
}

// drilled is a backup, and what had been acknowledged when it began.
type drilled struct {
	dir   string
	acked []job.ID
}

func newDrill(t *testing.T) *drill {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	d := &drill{t: t, chance: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(),
		tokens: filepath.Join(t.TempDir(), "tokens")}
	d.token = client.NewSecret(strings.TrimSpace(d.cli("admin", "token", "new", "--owner", "ann", "--role", "admin",
		d.tokens)))
	write(t, filepath.Join(d.dir, "profiles-of-drill.yaml"), "") // a user's file: it is left out, and named
	return d
}

// cli runs a command that must succeed.
func (d *drill) cli(args ...string) string {
	d.t.Helper()
	path, err := program()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.Env = append(os.Environ(), "STAGEPOST_TOKENS="+d.tokens)
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("stagepost %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

func (d *drill) start() {
	d.t.Helper()
	d.v, d.c = d.serve(d.dir)
}

// serve starts a server on a data directory.
func (d *drill) serve(dir string) (*victim, *client.Client) {
	d.t.Helper()
	v := prepare(d.t, dir, "--log-level", "error", "--tokens", d.tokens)
	v.begin(d.t)
	c, err := client.New(v.url, client.Options{Token: d.token})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(c.Close)
	return v, c
}

// act does one thing. What fails because the server was killed is done no further.
func (d *drill) act() {
	d.t.Helper()
	switch n := d.chance.IntN(24); {
	case n < 8:
		d.submit(fmt.Sprintf("thing-%d", d.next), false)
		d.next++
	case n < 12 && d.next > 0:
		d.submit(fmt.Sprintf("thing-%d", d.chance.IntN(d.next)), true)
	case n < 14:
		d.flow()
	case n < 16 && d.next > 0:
		d.fetch(fmt.Sprintf("thing-%d", d.chance.IntN(d.next)))
	case n < 17:
		_, _ = d.c.Hold(d.t.Context(), client.Hold{Scope: job.Scope{Owner: "ben"}, Who: "ann", Why: "drill"})
	case n < 18:
		_, _ = d.c.Release(d.t.Context(), job.Scope{Owner: "ben"}, "ann", "drill")
	case n < 19 && len(d.acked) > 0:
		_, _ = d.c.Do(d.t.Context(), d.acked[d.chance.IntN(len(d.acked))], "delete",
			client.Act{Note: "drill", Confirm: true})
	case n < 22:
		if d.backUp(); n < 21 {
			d.backing.Wait()
		}
	default:
		d.v.kill(d.t)
		d.kills++
		d.start()
	}
}

// submit submits a file, or a new version of one.
func (d *drill) submit(name string, update bool) {
	d.t.Helper()
	text := fmt.Sprintf("%s %d", name, d.chance.Uint64())
	b, err := d.c.Submit(d.t.Context(), client.Submission{
		Type: "file", Filename: name + ".txt", Submitter: "ann", LocalIDs: []string{name}, Title: name, Update: update,
	}, strings.NewReader(text))
	if err != nil {
		d.t.Logf("%s: %v", name, err) // an update of what is not stored yet may be refused
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acked = append(d.acked, b.ID)
}

// flow begins a flow with a large value.
func (d *drill) flow() {
	d.t.Helper()
	text, err := json.Marshal(strings.Repeat(fmt.Sprint(d.chance.Uint64()), 20_000))
	if err != nil {
		d.t.Fatal(err)
	}
	o := client.FlowOrder{File: "flow: large\ninputs:\n  text: {required: true}\nlinear:\n  - task: rest\n" +
		"    sleep: 1ms\n", Inputs: map[string]json.RawMessage{"text": text}}
	if _, err := d.c.SubmitFlow(d.t.Context(), o); err != nil {
		d.t.Errorf("flow: %v", err)
	}
}

// fetch asks for a package. The object need not be there.
func (d *drill) fetch(name string) {
	if a, err := d.c.RequestAccess(d.t.Context(), client.AccessRequest{LocalID: name, Requester: "ann"}); err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.access = append(d.access, a.Token)
	}
}

// backUp begins a backup while everything else goes on. A kill ends it.
func (d *drill) backUp() {
	d.mu.Lock()
	acked := slices.Clone(d.acked)
	d.mu.Unlock()
	c := d.c
	d.backing.Go(func() {
		b, err := c.Backup(d.t.Context(), client.Backup{Actor: "drill"})
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case job.KindOf(err) == job.Conflict: // one is being made
		case err != nil:
			d.broken++
			d.t.Logf("backup: %v", err)
		default:
			d.made = append(d.made, drilled{b.Dir, acked})
			d.whole++
			if len(d.made) > mostDrilled() { // any of the earlier ones is removed
				i := rand.IntN(len(d.made) - 1)
				if err := os.RemoveAll(d.made[i].dir); err != nil {
					d.t.Error(err)
				}
				d.made = slices.Delete(d.made, i, i+1)
			}
		}
	})
}

// settle waits until everything has ended.
func (d *drill) settle() {
	d.t.Helper()
	d.ended(d.c)
}

// ended waits until all batches of a server have ended, and requires that none failed.
func (d *drill) ended(c *client.Client) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 10*time.Minute)
	defer cancel()
	if _, err := c.Release(ctx, job.Scope{Owner: "ben"}, "ann", "drill"); err != nil &&
		job.KindOf(err) != job.NotFound {
		d.t.Logf("release: %v", err)
	}
	q := job.Query{Kinds: []job.Kind{"ingest.batch"}, Limit: 1000}
	for {
		page, err := c.Jobs(ctx, q)
		if err != nil {
			d.t.Fatal(err)
		}
		for _, b := range page.Jobs {
			if err := c.Watch(ctx, b.ID, 0, func(client.Update) error { return nil }); err != nil {
				d.t.Fatalf("%s: %v", b.ID, err)
			}
			now, err := c.Job(ctx, b.ID)
			if err != nil || now.State != "Completed" && now.State != "Deleted" && now.Cause != "poison" &&
				now.Cause != "jobs" {
				d.t.Errorf("%s: %s: %s %v", b.ID, now.State, now.Message, err)
			}
			d.children(ctx, c, b.ID)
		}
		if q.After = page.Next; q.After == "" {
			return
		}
	}
}

// children requires that no job of a batch failed because a file was missing.
func (d *drill) children(ctx context.Context, c *client.Client, batch job.ID) {
	d.t.Helper()
	page, err := c.Jobs(ctx, job.Query{Parent: batch})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, j := range page.Jobs {
		if j.Outcome == lifecycle.Failed && j.Cause != "poison" && j.Cause != "identifier-conflict" {
			d.t.Errorf("%s: %s %s: %s", j.ID, j.State, j.Cause, j.Message)
		}
	}
}

// restored makes a data directory of a set.
func (d *drill) restored(set string) string {
	d.t.Helper()
	dir := filepath.Join(d.t.TempDir(), "new")
	d.cli("admin", "restore", set, "--data", dir)
	return dir
}

// check restores a backup that was made while the server worked.
func (d *drill) check(b drilled) {
	d.t.Helper()
	dir := d.restored(b.dir)
	d.sound(dir)
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, id := range b.acked {
		if _, err := store.Get(d.t.Context(), id); err != nil {
			d.t.Errorf("%s lacks %s, which was acknowledged before: %v", b.dir, id, err)
		}
	}
	if err := store.Close(); err != nil {
		d.t.Error(err)
	}
	v, c := d.serve(dir)
	d.ended(c)
	v.kill(d.t)
	d.sound(dir)
}

// sound checks a data directory without a server.
func (d *drill) sound(dir string) {
	d.t.Helper()
	d.cli("admin", "verify", "--data", dir)
	d.cli("admin", "fsck", "--data", dir)
	if report, err := ocfl.Validate(d.t.Context(), filepath.Join(dir, "storage")); err != nil &&
		!errors.Is(err, fs.ErrNotExist) || err == nil && !report.Valid() {
		d.t.Errorf("the storage of %s: %+v, %v", dir, report, err)
	}
}

// compare restores the last backup and compares it with the data directory, which no server uses.
func (d *drill) compare(set string) {
	d.t.Helper()
	m, err := backup.ReadManifest(set)
	if err != nil {
		d.t.Fatal(err)
	}
	if !slices.Equal(m.Unknown, []string{"profiles-of-drill.yaml"}) {
		d.t.Errorf("entries of the data directory that durableData does not name: %v", m.Unknown)
	}
	dir := d.restored(set)
	if n := sameData(d.t, d.dir, dir); n < *drillActions/10 {
		d.t.Errorf("only %d files were compared", n)
	}
	a, err1 := os.ReadFile(d.tokens)
	b, err2 := os.ReadFile(filepath.Join(dir, backup.OutsideName, "tokens"))
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
		d.t.Errorf("tokens: %q, were %q, %v", b, a, err)
	}
	d.goesOn(dir)
}

// goesOn starts servers on both directories: packages have the same tokens and content, and the restored one gives no
// identifier again.
func (d *drill) goesOn(dir string) {
	d.t.Helper()
	v1, c1 := d.serve(d.dir)
	defer v1.kill(d.t)
	v2, c2 := d.serve(dir)
	defer v2.kill(d.t)
	for _, token := range d.access {
		if a, b := d.packageOf(c1, token), d.packageOf(c2, token); a != b {
			d.t.Errorf("the package %s: %.100q, was %.100q", token, b, a)
		}
	}
	before := arks(d.t, c1)
	if got := arks(d.t, c2); !slices.Equal(before, got) {
		d.t.Errorf("objects %v, were %v", got, before)
	}
	b, err := c2.Submit(d.t.Context(), client.Submission{Type: "file", Filename: "new.txt", Submitter: "ann"},
		strings.NewReader("something new"))
	if err != nil {
		d.t.Fatal(err)
	}
	if err := c2.Watch(d.t.Context(), b.ID, 0, func(client.Update) error { return nil }); err != nil {
		d.t.Fatal(err)
	}
	if got := arks(d.t, c2); len(got) != len(before)+1 {
		d.t.Errorf("%d objects, %d before a new one was stored", len(got), len(before))
	}
}

// packageOf gives the content of a package, or why it cannot be fetched.
func (d *drill) packageOf(c *client.Client, token string) string {
	d.t.Helper()
	a, err := c.Access(d.t.Context(), token)
	if err != nil {
		return err.Error()
	}
	if err := c.Watch(d.t.Context(), a.Job, 0, func(client.Update) error { return nil }); err != nil {
		return err.Error()
	}
	body, _, err := c.FetchAccess(d.t.Context(), token, "", 0)
	if err != nil {
		return err.Error()
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		d.t.Error(err)
	}
	return string(text)
}

// arks lists all objects.
func arks(t *testing.T, c *client.Client) (all []string) {
	t.Helper()
	q := client.ObjectQuery{Limit: 100}
	for {
		page, err := c.Objects(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Objects {
			all = append(all, o.ARK)
		}
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
}

// killRestores kills restores: no server starts on what they leave.
func (d *drill) killRestores(set string) {
	d.t.Helper()
	path, err := program()
	if err != nil {
		d.t.Fatal(err)
	}
	for range 3 {
		dir := filepath.Join(d.t.TempDir(), "new")
		cmd := exec.Command(path, "admin", "restore", set, "--data", dir)
		if err := cmd.Start(); err != nil {
			d.t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		begun := func() bool {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for !hostcli.Exists(filepath.Join(dir, backup.RestoringName)) {
				select {
				case err := <-ended: // it was faster
					ended <- err
					return false
				case <-tick.C:
				}
			}
			return true
		}()
		_ = cmd.Process.Kill()
		<-ended
		if !begun || !hostcli.Exists(filepath.Join(dir, backup.RestoringName)) {
			continue // it had ended: the directory is whole
		}
		out, err := exec.Command(path, "serve", "--data", dir, "--listen", "127.0.0.1:0").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "is incomplete: a restore into it has not ended") {
			d.t.Errorf("a server on half a directory: %v\n%s", err, out)
		}
	}
}
