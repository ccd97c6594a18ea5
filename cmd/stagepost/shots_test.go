package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestScreenshots takes the screenshots of docs/ from a server on the data directory of a demo, with more work: batches
// that are being fetched, one with objects that failed, a flow that waits for a person, scripts and a hold.
func TestScreenshots(t *testing.T) {
	servertest.ShotsWanted(t)
	here := t.TempDir()
	printed(t, here)
	data := filepath.Join(here, "demo-data-1")
	depositor := newParish(t)
	hooks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/catalog" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(hooks.Close)
	write(t, filepath.Join(data, "profiles", "hooks.secret"), "whsec_"+strings.Repeat("c3RhZ2Vwb3N0", 4))
	write(t, filepath.Join(data, "profiles", "registers.yaml"), fmt.Sprintf(`id: registers
description: Church registers, scanned by the parishes
owner: library
collection: registers
allow_networks: [127.0.0.0/8]
limits:
  files: 500
webhooks:
  - {name: catalog, url: "%[1]s/catalog", secret_file: hooks.secret, events: [job.completed, batch.completed]}
  - {name: chat, url: "%[1]s/chat", secret_file: hooks.secret, events: [batch.failed, job.failed]}
`, hooks.URL))
	write(t, filepath.Join(data, "services.yaml"), `services:
  statistics:
    runs_per_user: 2
    limits: {wall: 30m, memory: 512MiB}
    max: {wall: 2h, memory: 2GiB}
`)
	moodle(t, data)
	v := raise(t, data, "--flow-commands")
	t.Cleanup(func() {
		v.signal(t, os.Interrupt)
		_ = v.Wait()
	})
	c, err := client.New(v.url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, client: c, url: v.url, dir: t.TempDir()}

	mary := s.submit("ann", depositor.manifest(s.dir, 5, "st-mary.checkm", false), "--note", "registers of St. Mary")
	s.reach(mary, "Failed")
	failed, stored := s.child(mary, "Failed"), s.child(mary, "Completed")
	john := s.submit("ben", depositor.manifest(s.dir, 8, "st-john.checkm", true))
	paul := s.submit("ann", depositor.manifest(s.dir, 3, "st-paul.checkm", true), "--priority", "80")
	s.reach(john, "Processing")
	s.reach(paul, "Processing")
	s.run("hold", "--kind", "ingest.access", "--actor", "ada", "--note", "the storage of packages is enlarged")

	write(t, filepath.Join(s.dir, "flow.yaml"), findings)
	flow := s.run("flow", "run", filepath.Join(s.dir, "flow.yaml"), "--detach", "--actor", "ben")
	s.follow(flow, func(client.Update) bool {
		tasks, err := s.client.Tasks(t.Context(), flow)
		return err == nil && slices.ContainsFunc(tasks, func(k job.Task) bool {
			return strings.HasSuffix(k.Name, "summary") && k.State == "SUCCESS"
		})
	})
	write(t, filepath.Join(s.dir, "counts.csv"), "1855,1204\n1856,1377\n1857,1611\n")
	computed := s.compute("cleo", "letters a year",
		`while IFS=, read -r year n; do echo "$year: $n letters"; done <counts.csv | tee table.txt`)
	s.follow(computed, func(u client.Update) bool { return u.Job != nil && u.Job.Ended })
	s.reach(s.compute("ann", "growth of the mail", "sleep 600"), "Running")

	share, err := s.client.ShareBatch(t.Context(), mary, client.ShareOrder{Note: "for the parish"})
	if err != nil {
		t.Fatal(err)
	}
	archives, err := s.client.Jobs(t.Context(), job.Query{Kinds: []job.Kind{"archive.job"}})
	if err != nil || len(archives.Jobs) != 1 {
		t.Fatalf("got %d archives, %v", len(archives.Jobs), err)
	}
	failedPage, batchPage, computePage := "/jobs/"+string(failed), "/jobs/"+string(mary), "/jobs/"+string(computed)
	servertest.Shots(t, v.url, "", "web-overview=/", "web-mine=/mine", "web-jobs=/jobs", "web-search=/search?name=1",
		"web-job="+failedPage, "web-past="+failedPage+"?entry=2", "web-batch="+batchPage, "web-shared="+share.Path,
		"web-bulk=/bulk?kind=ingest.job&state=Failed&event=retry", "web-profile=/profiles/registers", "web-hooks=/hooks",
		"web-queues=/queues", "web-holds=/holds", "web-locks=/locks", "web-workers=/workers", "web-messages=/outbox",
		"web-audit=/audit", "web-fixity=/fixity", "web-lifecycles=/lifecycles", "web-lifecycle=/lifecycles/ingest.job",
		"web-flow=/jobs/"+string(flow), "web-compute=/compute", "web-compute-new=/compute/new",
		"web-compute-job="+computePage, "web-log=/jobs/"+string(stored)+"/log", "web-archive=/archive",
		"web-archive-course=/archive/campus/5", "web-copies=/jobs/"+string(archives.Jobs[0].ID)+"/copies")
}

// moodle starts the Moodle of a demo again, at its address.
func moodle(t *testing.T, data string) {
	text, err := os.ReadFile(filepath.Join(data, "archive.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(`moodle: \{url: "http://([^"]+)"`).FindSubmatch(text)
	if at == nil {
		t.Fatalf("no Moodle in %s", text)
	}
	m, err := replay.New()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", string(at[1]))
	if err != nil {
		t.Fatal(err)
	}
	site := &httptest.Server{Listener: l, Config: &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}}
	site.Start()
	t.Cleanup(site.Close)
}

// findings is a flow that waits for a person.
const findings = `flow: publish-findings
about: Checks the tables, computes the summary, and publishes it after an approval.
inputs:
  tables: [population, harvest, prices]
linear:
  - task: fetch
    requires: [tables]
    run: echo fetched
    provides: source
  - each: table
    in: tables
    task: check
    run: echo "$table is complete"
    provides: reports
  - task: summary
    requires: [reports, source]
    run: echo "3 tables, 1,204 rows"
    revert: echo withdrawn
    provides: result
  - task: approval
    wait: {signal: approved, within: 24h}
    provides: {keys: [by]}
  - task: publish
    requires: [result, by]
    run: echo published
`

// scene makes the work that the screenshots show.
type scene struct {
	*testing.T
	client   *client.Client
	url, dir string
}

// run runs a command of the program for the server, and returns the first word that it prints, which is an id.
func (s *scene) run(args ...string) job.ID {
	s.Helper()
	at := slices.Index(args, "--")
	if at < 0 {
		at = len(args)
	}
	text, code := output(s.T, slices.Insert(args, at, "--server", s.url)...)
	if code != cli.ExitOK {
		s.Fatalf("%q: exit code %d: %s", args, code, text)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\t")
	return job.ID(first)
}

// submit submits a manifest.
func (s *scene) submit(who, manifest string, more ...string) job.ID {
	s.Helper()
	return s.run(append([]string{"submit", manifest, "--profile", "registers", "--submitter", who}, more...)...)
}

// compute orders a script.
func (s *scene) compute(owner, name, script string) job.ID {
	s.Helper()
	return s.run("compute", "run", filepath.Join(s.dir, "counts.csv"), "--owner", owner, "--name", name, "--detach",
		"--", "sh", "-c", script)
}

// follow watches a job until an update is as wanted.
func (s *scene) follow(id job.ID, wanted func(client.Update) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	seen := errors.New("seen")
	if err := s.client.Watch(ctx, id, 0, func(u client.Update) error {
		if wanted(u) {
			return seen
		}
		return nil
	}); !errors.Is(err, seen) {
		s.Fatalf("%s is not as wanted: %v", id, err)
	}
}

// reach waits until a job is in a state.
func (s *scene) reach(id job.ID, state lifecycle.State) {
	s.Helper()
	s.follow(id, func(u client.Update) bool { return u.Job != nil && u.Job.State == state })
}

// child returns a child of a batch in a state.
func (s *scene) child(batch job.ID, state lifecycle.State) job.ID {
	s.Helper()
	page, err := s.client.Jobs(s.Context(), job.Query{Parent: batch, States: []lifecycle.State{state}})
	if err != nil || len(page.Jobs) == 0 {
		s.Fatalf("%s has no job that is %s: %v", batch, state, err)
	}
	return page.Jobs[0].ID
}

// parish is the server of a depositor. Files whose names begin with slow end with the test, those that begin with
// missing are not there.
type parish struct{ *httptest.Server }

func newParish(t *testing.T) parish {
	end := make(chan struct{})
	p := parish{httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		text := scan(name)
		switch {
		case strings.HasPrefix(name, "missing"):
			http.NotFound(w, r)
		case strings.HasPrefix(name, "slow"):
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = w.Write(text[:len(text)*2/3])
			_ = http.NewResponseController(w).Flush()
			<-end
		default:
			_, _ = w.Write(text)
		}
	}))}
	t.Cleanup(func() {
		close(end)
		p.Close()
	})
	return p
}

// scan is the content of a file.
func scan(name string) []byte { return bytes.Repeat([]byte(name+"\n"), 20000) }

// registers are the objects of a parish: name, title, date.
var registers = [][3]string{
	{"baptisms-1801.tif", "Baptisms, 1801 to 1820", "1801"}, {"marriages-1801.tif", "Marriages, 1801 to 1837", "1801"},
	{"burials-1813.tif", "Burials, 1813 to 1850", "1813"}, {"banns-1823.tif", "Banns of marriage, 1823", "1823"},
	{"missing-accounts-1790.pdf", "Accounts of the churchwardens, 1790", "1790"},
	{"confirmations-1840.tif", "Confirmations, 1840 to 1862", "1840"}, {"terrier-1745.tif", "Terrier of 1745", "1745"},
	{"map-1839.tif", "Map of the tithes, 1839", "1839"},
}

// manifest writes a manifest of the first objects of a parish: two fail from the fourth on, or, with slow, none ends.
func (p parish) manifest(dir string, objects int, name string, slow bool) string {
	var b strings.Builder
	b.WriteString(`#%checkm_0.7
#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-single-file-batch-manifest
#%prefix | mrt: | http://merritt.cdlib.org/terms#
#%prefix | nfo: | http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#
#%fields | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | nfo:fileName | ` +
		"mrt:primaryIdentifier | mrt:localIdentifier | mrt:creator | mrt:title | mrt:date\n")
	for i, r := range registers[:objects] {
		file := r[0]
		if slow {
			file = "slow-" + strings.TrimPrefix(file, "missing-")
		}
		text := scan(file)
		if file == "banns-1823.tif" {
			text = scan("what the parish meant to send")
		}
		fmt.Fprintf(&b, "%s/%s | SHA-256 | %x | %d | | %s | | %s-%02d | Parish archive | %s | %s\n", p.URL, file,
			sha256.Sum256(text), len(scan(file)), file, strings.TrimSuffix(name, ".checkm"), i+1, r[1], r[2])
	}
	b.WriteString("#%eof\n")
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		panic(err)
	}
	return path
}
