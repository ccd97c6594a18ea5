package merritt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// fetched is what a URL has.
func (h *harness) fetched(url string) string {
	h.Helper()
	r, err := http.Get(url)
	h.ok(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	h.ok(err)
	if r.StatusCode != http.StatusOK {
		h.Fatalf("%s: %s", url, r.Status)
	}
	return string(text)
}

// stores reads a manifest as Merritt's storage does, fetches each file, and compares it with size and digest.
func (h *harness) stores(manifest string) map[string]string {
	h.Helper()
	files := map[string]string{}
	text := h.fetched(manifest)
	if !strings.Contains(text, "mrt-add-manifest\n") || !strings.HasSuffix(text, "#%eof") {
		h.Errorf("no manifest for storage:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var field []string
		for one := range strings.SplitSeq(line, "|") {
			field = append(field, strings.TrimSpace(one))
		}
		content := h.fetched(field[0])
		sum := sha256.Sum256([]byte(content))
		if size, err := strconv.Atoi(field[3]); err != nil || size != len(content) || field[1] != "sha256" ||
			field[2] != hex.EncodeToString(sum[:]) {
			h.Errorf("%s has %d bytes and %x", line, len(content), sum)
		}
		files[field[5]] = content
	}
	return files
}

// TestHandOver: Stagepost processes a job, and Merritt's storage, inventory and notification finish it, each by what
// the nodes have. The control is a server whose work directories they cannot read: there are no such nodes.
func TestHandOver(t *testing.T) {
	for _, gives := range []bool{true, false} {
		t.Run(fmt.Sprint(gives), func(t *testing.T) {
			h := openHarness(t, gives)
			p := h.program
			storing := job.Scope{Kind: record.JobKind, State: record.Storing}
			_, err := h.engine.Operator().Hold(t.Context(), storing, "op", "Merritt stores",
				h.engine.Clock().Now().Add(2*guard))
			h.ok(err)
			h.run()
			b := h.submit("hello")
			var j job.Job
			for len(j.ID) == 0 || j.State != record.Storing {
				page, err := h.store.List(t.Context(), job.Query{Parent: b.ID})
				h.ok(err)
				if len(page.Jobs) > 0 {
					j = h.await(page.Jobs[0].ID, func(j *job.Job) bool { return j.State == record.Storing || j.Ended })
				}
			}
			id, err := p.Acquire("Storing")
			if err != nil || id != h.node(j.ID) {
				t.Fatalf("Merritt acquired %q, %v", id, err)
			}
			manifest, mode, remove := p.Storing(id)
			if !gives {
				if manifest != "" || mode != "" || p.Recording(id) != "" {
					t.Errorf("control: %q %q %q", manifest, mode, p.Recording(id))
				}
				return
			}
			d, err := record.DataOf(&j)
			h.ok(err)
			escaped := strings.ReplaceAll(strings.ReplaceAll(d.Identity.ARK, ":", "%3A"), "/", "%2F")
			if want := "add/9/" + escaped; mode != want || remove != "" {
				t.Errorf("mode %q, want %q; delete %q", mode, want, remove)
			}
			files := h.stores(manifest)
			if files["producer/a.txt"] != "hello" || !strings.Contains(files["system/mrt-erc.txt"], d.Identity.ARK) {
				t.Errorf("files: %q", slices.Sorted(maps.Keys(files)))
			}
			if want := "http://storage.example:35121/manifest/9/" + escaped; p.Recording(id) != want {
				t.Errorf("inventory reads %q, want %q", p.Recording(id), want)
			}
			for _, state := range []string{"Recording", "Notify", "Completed"} {
				h.ok(p.Move(id, state, "Success"))
				h.ok(p.Unlock("/jobs/" + id))
				if state != "Completed" {
					h.ok(p.Lock("/jobs/" + id))
				}
			}
			if j = h.ended(j.ID); j.State != record.Completed {
				t.Errorf("it is %s: %s", j.State, j.Message)
			}
			if b = h.ended(b.ID); b.State != record.Completed {
				t.Errorf("the batch is %s: %s", b.State, b.Message)
			}
			h.sound()
		})
	}
}

// TestHandOverUpdate: an update names what it takes out of the object.
func TestHandOverUpdate(t *testing.T) {
	o := Options{Storage: "http://storage.example", Node: 7}
	spec := `{"type":"file","profile":"maps_content","update":true}`
	data := `{"identity":{"ark":"ark:/99999/fk4a"},"handed":{"manifest":"http://a/m","delete":"producer/b\n"}}`
	j := job.Job{Kind: record.JobKind, Spec: []byte(spec), Data: []byte(data)}
	store, inventory := o.stored(&j)
	if store == nil || *store != (merritt.Stored{ManifestURL: "http://a/m", Mode: "update/7/ark%3A%2F99999%2Ffk4a",
		Delete: "producer/b\n"}) || inventory.ManifestURL != "http://storage.example/manifest/7/ark%3A%2F99999%2Ffk4a" {
		t.Errorf("%+v, %+v", store, inventory)
	}
	for _, without := range []string{`{}`, `{"identity":{"ark":"ark:/99999/fk4a"}}`, `{"handed":{"manifest":"u"}}`} {
		j.Data = []byte(without)
		if store, inventory := o.stored(&j); store != nil || inventory != nil {
			t.Errorf("%s: %+v, %+v", without, store, inventory)
		}
	}
}

// TestAdoptStored: the record of a job that Merritt has processed has the identifier under which it is to be stored,
// and the nodes of others keep their keys when Stagepost processes the job again.
func TestAdoptStored(t *testing.T) {
	h := newHarness(t)
	p := h.program
	batch, err := p.Submit("bid-1", "maps_content", "one", "batchManifestFile")
	h.ok(err)
	h.pass()
	ids, err := p.Begin(batch, "bid-1", "maps_content", "one.txt")
	h.ok(err)
	h.ok(p.Lock("/jobs/" + ids[0]))
	for _, state := range []string{"Estimating", "Provisioning", "Downloading", "Processing", "Storing"} {
		h.ok(p.Move(ids[0], state, "Success"))
	}
	h.ok(p.Hand(ids[0], "http://ingest.example/m", "add/9/ark%3A%2F99999%2Ffk4a", "http://storage.example/m"))
	h.ok(p.Unlock("/jobs/" + ids[0]))
	h.pass()
	id, found, err := h.store.Node(t.Context(), ids[0])
	if err != nil || !found {
		t.Fatal(found, err, h.f.Findings())
	}
	j := h.get(id)
	s, err := record.SpecOf(&j)
	if err != nil || s.PrimaryID != "ark:/99999/fk4a" || j.State != record.Storing {
		t.Errorf("%s, %+v, %v; %v", j.State, s, err, h.f.Findings())
	}
	for mode, want := range map[string]string{"": "", "add/9": "", "add/9/doi:1": "", "add/9/%": "",
		"update/9/ark%3A%2F1%2Fa": "ark:/1/a"} {
		if got := objectOf(mode); got != want {
			t.Errorf("%q: %q, want %q", mode, got, want)
		}
	}
	h.sound()
}
