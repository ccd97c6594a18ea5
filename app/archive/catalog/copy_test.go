package catalog

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestFoundDigest: a copy has the digest that its last fixity check found, as long as it is corrupt.
func TestFoundDigest(t *testing.T) { inEach(t, testFoundDigest) }

func testFoundDigest(t *testing.T, open opener) {
	c, ctx := open.new(t, Options{}), t.Context()
	k := putCopy(t, c)
	for i, r := range []Checked{{Fixity: Corrupt, Found: sums[0]}, {Fixity: Absent}, {Fixity: Corrupt, Found: sums[1]},
		{Fixity: Intact}} {
		r.CopyKey, r.At = k, day.Add(time.Duration(i+1)*time.Hour)
		must(t, c.PutChecked(ctx, []Checked{r}))
		got, err := c.Copy(ctx, k)
		if must(t, err); got.Found != r.Found || got.Fixity != r.Fixity {
			t.Errorf("%d: got %q, want %q", i, got.Found, r.Found)
		}
	}
}

// putCopy enters an archive of the files a, b and c with a copy of each, and gives that of a.
func putCopy(t *testing.T, c *Catalog) CopyKey {
	t.Helper()
	ctx := t.Context()
	must(t, c.Begin(ctx, Archive{Job: "j1", Source: "s", Created: day}))
	must(t, c.PutArtifacts(ctx, "j1", []Artifact{artifact("a"), artifact("b"), artifact("c")}))
	must(t, c.Plan(ctx, "j1", []string{"x"}, time.Time{}, day))
	all, err := c.Copies(ctx, "j1", "")
	must(t, err)
	for _, x := range all {
		must(t, c.PutAttempts(ctx, []Attempt{{CopyKey: x.CopyKey, At: day, Next: day}}))
	}
	return all[0].CopyKey
}

// TestFoundDigestOfEarlierCatalogs: a fault that was known before the column keeps all else; its next check finds the
// digest.
func TestFoundDigestOfEarlierCatalogs(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), Name), t.Context()
	c := openAt(t, path, Options{Installation: "here"})
	r := Checked{CopyKey: putCopy(t, c), Fixity: Corrupt, Detail: "why", Found: sums[0], At: day.Add(time.Hour)}
	must(t, c.PutChecked(ctx, []Checked{r}))
	_, err := c.write.ExecContext(ctx, "ALTER TABLE copies DROP COLUMN found; PRAGMA user_version = 4")
	must(t, err)
	must(t, c.Close())
	c = openAt(t, path, Options{Installation: "here"})
	got, err := c.Copy(ctx, r.CopyKey)
	if must(t, err); got.Found != "" || got.Fixity != Corrupt || got.Detail != "why" || !got.LastFixity.Equal(r.At) {
		t.Errorf("got %+v", got)
	}
	r.At = r.At.Add(time.Hour)
	must(t, c.PutChecked(ctx, []Checked{r}))
	if got, err = c.Copy(ctx, r.CopyKey); err != nil || got.Found != sums[0] {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestCopiesBetween lists the copies of some files of an archive.
func TestCopiesBetween(t *testing.T) { inEach(t, testCopiesBetween) }

func testCopiesBetween(t *testing.T, open opener) {
	c := open.new(t, Options{})
	putCopy(t, c)
	for paths, want := range map[[2]string][]string{{"a", "b"}: {"a", "b"}, {"b", "b"}: {"b"}, {"b", "z"}: {"b", "c"},
		{"A", "Z"}: nil} {
		all, err := c.CopiesBetween(t.Context(), "j1", paths[0], paths[1])
		must(t, err)
		var got []string
		for _, x := range all {
			got = append(got, x.Of.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: got %q, want %q", paths, got, want)
		}
	}
}
