package ingest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// readers are peers that lock nothing and read the work directories.
type readers struct{ files string }

func (readers) Lock(context.Context, inventory.Lock) (*job.Blocker, error)  { return nil, nil }
func (readers) Unlock(...inventory.Lock)                                    {}
func (r readers) Files() string                                             { return r.files }
func (readers) Processed(context.Context, job.ID, bool) (*Processed, error) { return nil, nil }

// TestHandedOver: the record of a processed job has where peers find its files. It does not if they read none, or if
// their manifest cannot describe the object; the job is completed in any case.
func TestHandedOver(t *testing.T) {
	var many strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&many, "a name that is not in the object %d\n", i)
	}
	for name, c := range map[string]struct {
		files string
		s     Submission
		text  string
		want  *record.Handed // with URL for that of the job
	}{
		"added": {"http://files/", Submission{Filename: "a.txt"}, "hello", &record.Handed{}},
		"updated": {"http://files", updated, zipOf(t, "b", "2", "mrt-delete.txt", "d/c\na\n"), &record.Handed{
			Delete: "producer/a\nproducer/d/c\n"}},
		"not read":           {"", Submission{Filename: "a.txt"}, "hello", nil},
		"a name with %20":    {"http://files", Submission{Filename: "a%20b.txt"}, "hello", nil},
		"too many deletions": {"http://files", updated, zipOf(t, "b", "2", "mrt-delete.txt", many.String()), nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, t.TempDir())
			o.Peers = readers{c.files}
			w := startOn(t, mem.New(), o)
			if c.s.Update {
				w.one(Submission{Filename: "x.zip", LocalIDs: c.s.LocalIDs}, zipOf(t, "a", "1", "d/c", "3"))
			}
			j, err := w.store.Get(t.Context(), w.one(c.s, c.text).Job)
			if err != nil {
				t.Fatal(err)
			}
			d, err := record.DataOf(&j)
			if err != nil {
				t.Fatal(err)
			}
			if c.want != nil {
				c.want.Manifest = fmt.Sprintf("http://files/%s/%s/handed/mrt-manifest.txt", j.Parent, j.ID)
			}
			if diff := cmp.Diff(c.want, d.Handed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var updated = Submission{Filename: "x.zip", LocalIDs: []string{"l1"}, Update: true}
