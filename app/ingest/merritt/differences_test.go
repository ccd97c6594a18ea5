package merritt

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// The differences are read without a server on the store, and without creating one.
func TestDifferences(t *testing.T) {
	h := newHarness(t)
	_, one := h.pending()
	id := h.node(one.ID)
	servers := []string{h.address}
	_, _, err := Differences(t.Context(), servers, zookeeper.Options{}, h.f.o.Profiles)
	if job.KindOf(err) != job.Conflict || !strings.Contains(err.Error(), "/stagepost") {
		t.Errorf("while a server runs: %v", err)
	}
	seen, fresh, err := Differences(t.Context(), servers, zookeeper.Options{Root: "/fresh"}, h.f.o.Profiles)
	h.ok(err)
	if !fresh || len(seen) != 2 || seen[1].Node != id {
		t.Errorf("without a store: fresh %t, %v", fresh, seen)
	}
	if names := h.program.Names("/"); strings.Contains(strings.Join(names, " "), "fresh") {
		t.Errorf("a store was created: %v", names)
	}
	h.ok(h.store.Close())
	zktest.Remove(t, h.program.Conn, "/jobs/"+id)
	zktest.Remove(t, h.program.Conn, "/jobs/states/pending/05-"+id)
	seen, fresh, err = Differences(t.Context(), servers, zookeeper.Options{}, h.f.o.Profiles)
	h.ok(err)
	if fresh || len(seen) != 1 || seen[0].Record != one.ID || !seen[0].Gone {
		t.Errorf("fresh %t, %+v", fresh, seen)
	}
}

// What has ended in Merritt, and the jobs of batches that take none, get no record and are no differences.
func TestDifferencesAreTakenOver(t *testing.T) {
	h := newHarness(t)
	for _, state := range []string{"Completed", "Deleted"} {
		batch, err := h.program.Submit("bid-"+state, "maps_content", "two", "batchManifestFile")
		h.ok(err)
		_, err = h.program.Begin(batch, "bid-"+state, "maps_content", "one.txt")
		h.ok(err)
		h.ok(h.program.Batch(batch, state, ""))
	}
	ours, _ := h.pending() // whose record has all its jobs
	_, err := h.program.Begin(h.node(ours.ID), "bid-ours", "maps_content", "more.txt")
	h.ok(err)
	batch, err := h.program.Submit("bid-1", "maps_content", "two", "batchManifestFile")
	h.ok(err)
	ids, err := h.program.Begin(batch, "bid-1", "maps_content", "one.txt")
	h.ok(err)
	h.ok(h.program.Move(ids[0], "Failed", "404"))
	h.ok(h.store.Close())
	differences := func() []Difference {
		all, _, err := Differences(t.Context(), []string{h.address}, zookeeper.Options{}, h.f.o.Profiles)
		h.ok(err)
		return all
	}
	all := differences()
	if len(all) != 2 || all[0].Node != batch || all[1].Node != ids[0] {
		t.Fatalf("%+v", all)
	}
	text, err := json.Marshal(all[1])
	h.ok(err)
	for _, key := range []string{`"node":"` + ids[0], `"kind":"ingest.job"`, `"state":"Failed"`, `"batch":"` + batch,
		`"profile":"maps_content"`, `"message":"404"`} {
		if !strings.Contains(string(text), key) {
			t.Errorf("%s has no %s", text, key)
		}
	}
}

// A tree without servers names them, and a node of a dump may be written in several ways.
func TestTree(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := merritt.OpenTree(ctx, []string{"127.0.0.1:1"}, "", "")
	if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("without servers: %v", err)
	}
	h := newHarness(t)
	tree, err := merritt.OpenTree(t.Context(), []string{h.address}, "", "")
	h.ok(err)
	defer tree.Close()
	for _, path := range []string{"/locks", "locks", "/locks/", "//locks"} {
		nodes, _, err := tree.Dump(t.Context(), path, 100)
		if err != nil || len(nodes) < 2 || nodes[0].Path != "/locks" {
			t.Errorf("%q: %v, %v", path, nodes, err)
		}
	}
	if _, _, err := tree.Dump(t.Context(), "/none", 100); err == nil || strings.Contains(err.Error(), "another user") {
		t.Errorf("a node that does not exist: %v", err)
	}
}
