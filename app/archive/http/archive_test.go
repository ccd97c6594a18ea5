package archivehttp_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

func order(course string) (o client.ArchiveOrder) {
	o.Source, o.Course = "disk", course
	return o
}

func TestArchiveOverTheAPI(t *testing.T) {
	h := open(t)
	ctx, c := t.Context(), h.Client
	all, err := c.ArchiveSources(ctx)
	if err != nil || len(all.Sources) != 1 || len(all.Locations) != 2 || all.Locations[0].Reason != "" {
		t.Fatalf("got %+v, %v", all, err)
	}
	p, err := c.PlanArchive(ctx, order("maps").ArchiveRequest)
	if err != nil || len(p.Activities) != 1 || p.Items != 2 || p.Settings.Keep != "unlimited" {
		t.Fatalf("got %+v, %v", p, err)
	}
	o := order("maps")
	o.Note, o.Actor, o.Group = "term is over", "ann", "maps"
	j := h.archive(o)
	if j.Owner != "ann" || j.Group != "maps" || j.Kind != archive.Kind {
		t.Errorf("got %+v", j)
	}
	v, err := c.ArchiveOverview(ctx, "disk", "maps")
	if err != nil || v.Counts["archived"] != 1 || v.Activities[0].Job != j.ID {
		t.Errorf("got %+v, %v", v, err)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "root/maps/a.txt"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err = c.ArchiveOverview(ctx, "disk", "maps"); err != nil || v.Counts["changed"] != 1 {
		t.Errorf("got %+v, %v", v, err)
	}
	list, err := c.Archives(ctx, client.ArchiveQuery{Source: "disk", Course: "maps", Outcome: "complete"})
	if err != nil || len(list.Archives) != 1 || list.Archives[0].Job != j.ID {
		t.Errorf("got %+v, %v", list, err)
	}
	d, err := c.Archive(ctx, j.ID)
	if err != nil || d.State != archive.Completed || d.Stored[1].Copies != d.Files {
		t.Errorf("got %+v, %v", d, err)
	}
	for format, want := range map[string]string{"xml": "<premis", "json": `"objects"`} {
		r, err := c.ArchivePREMIS(ctx, j.ID, format)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(r); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: got %.200s, %v", format, text, err)
		}
		_ = r.Close()
	}
	for name, err := range map[string]error{
		"source": errOf(c.ArchiveOverview(ctx, "x", "maps")), "archive": errOf(c.Archive(ctx, "arc_x")),
		"files":    errOf(c.ArchiveArtifacts(ctx, "arc_x", "", 0)),
		"decision": errOf(c.DecideDeletion(ctx, "x", client.DecideDeletion{Actor: "ann"})),
	} {
		if job.KindOf(err) != job.NotFound {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

// TestContent: a file is read whole and in ranges, and other conditions are answered by RFC 9110.
func TestContent(t *testing.T) {
	h := open(t)
	id := h.archive(order("maps")).ID
	files, err := h.Client.ArchiveArtifacts(t.Context(), id, "", 0)
	if err != nil || len(files.Artifacts) < 3 {
		t.Fatalf("got %+v, %v", files, err)
	}
	a := files.Artifacts[0]
	read := func(from int64) []byte {
		t.Helper()
		body, start, err := h.Client.FetchArtifact(t.Context(), id, a, from)
		if err != nil || start != from {
			t.Fatalf("from %d: got %d, %v", from, start, err)
		}
		text, err := io.ReadAll(body)
		if err := body.Close(); err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	whole := read(0)
	if int64(len(whole)) != a.Size || !bytes.Equal(read(7), whole[7:]) {
		t.Errorf("got %d bytes of %d", len(whole), a.Size)
	}
	path := "/api/v1/archive/archives/" + string(id) + "/content/" + a.Path
	for _, c := range []struct {
		name, value string
		status      int
		want        string
	}{
		{"Range", "bytes=2-4", 206, string(whole[2:5])}, {"Range", "bytes=-3", 206, string(whole[len(whole)-3:])},
		{"Range", "bytes=99999999-", 416, ""}, {"Range", "lines=1-2", 200, string(whole)},
		{"If-None-Match", `"` + a.SHA256 + `"`, 304, ""}, {"If-Match", `"other"`, 412, ""},
	} {
		r := h.Request(http.MethodGet, path, "")
		r.Header.Set(c.name, c.value)
		answer, text := h.Ask(r)
		if answer.StatusCode != c.status || c.status < 300 && text != c.want {
			t.Errorf("%s %s: got %s and %d bytes", c.name, c.value, answer.Status, len(text))
		}
	}
	h.Problem(h.Request(http.MethodGet, path+"x", ""), http.StatusNotFound, job.NotFound)
}

// TestDeletionOverTheAPI: two persons before the end of the retention time; a legal hold refuses both.
func TestDeletionOverTheAPI(t *testing.T) {
	h := open(t)
	ctx, c := t.Context(), h.Client
	id := h.archive(order("maps")).ID
	holds, err := c.HoldArchive(ctx, id, client.HoldArchive{Name: "case 7", Note: "court", Actor: "law"})
	if err != nil || len(holds.Holds) != 1 {
		t.Fatalf("got %+v, %v", holds, err)
	}
	d := client.DeleteArchive{Note: "wrong course", Actor: "ann"}
	if _, err := c.DeleteArchive(ctx, id, d); job.KindOf(err) != job.Refused ||
		!strings.Contains(err.Error(), "case 7") {
		t.Fatalf("got %v", err)
	}
	holds, err = c.ReleaseArchive(ctx, id, "case 7", "law", "over")
	if err != nil || holds.Holds[0].ReleasedBy != "law" {
		t.Fatalf("got %+v, %v", holds, err)
	}
	request, err := c.DeleteArchive(ctx, id, d)
	if err != nil || request.State != "requested" {
		t.Fatalf("got %+v, %v", request, err)
	}
	if all, err := c.ArchiveDeletions(ctx, "requested"); err != nil || len(all) != 1 || all[0] != request {
		t.Errorf("got %+v, %v", all, err)
	}
	yes := client.DecideDeletion{Approve: true, Actor: "ann"}
	if _, err := c.DecideDeletion(ctx, request.Request, yes); job.KindOf(err) != job.Refused {
		t.Errorf("her own request: got %v", err)
	}
	yes.Actor = "ben"
	if _, err := c.DecideDeletion(ctx, request.Request, yes); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for range time.Tick(10 * time.Millisecond) { // the copies are deleted after the commit
		x, err := c.Archive(ctx, id)
		if err != nil {
			t.Fatalf("got %+v, %v", x, err)
		}
		if x.Tombstone != nil {
			break
		}
	}
	_, _, err = c.FetchArtifact(ctx, id, client.ArchiveArtifact{Path: "x"}, 0)
	if job.KindOf(err) != job.Gone {
		t.Errorf("got %v", err)
	}
}

func TestPeopleOverTheAPI(t *testing.T) {
	h := open(t)
	h.person()
	ctx, c := t.Context(), h.Client
	found, err := c.FindPeople(ctx, client.FindPeople{Text: "example", Note: "request 12", Actor: "eve"})
	if err != nil || len(found.People) != 1 || found.People[0].ID != "19" {
		t.Fatalf("got %+v, %v", found, err)
	}
	one := client.NamePerson{Source: "disk", ID: "19", Actor: "eve"}
	d, err := c.PersonData(ctx, one)
	if err != nil || len(d.Contents) != 1 || d.Archives[0].Job != "arc_0" {
		t.Fatalf("got %+v, %v", d, err)
	}
	e := client.ErasePerson{Source: "disk", ID: "19", Note: "request 12", Actor: "eve"}
	if _, err := c.ErasePerson(ctx, e); job.KindOf(err) != job.Refused {
		t.Errorf("without the number: got %v", err)
	}
	n := 1
	e.Expect = &n
	if done, err := c.ErasePerson(ctx, e); err != nil || len(done.Archives) != 1 {
		t.Errorf("got %+v, %v", done, err)
	}
	if _, err := c.PersonData(ctx, one); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
}
