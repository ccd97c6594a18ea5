package flowfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/flow"
)

const examples = "../../examples/flow"

func exampleText(t *testing.T, name string) string { return read1(t, examples, name) + "\n" }

// TestExamplesAreClean holds every example against the linter.
func TestExamplesAreClean(t *testing.T) {
	files, err := filepath.Glob(examples + "/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		for _, f := range Lint([]byte(read1(t, file))) {
			t.Errorf("%s:%s\n%s", file, f, f.Excerpt())
		}
	}
}

// listed gives all files below a directory.
func listed(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestVM(t *testing.T) {
	for _, c := range []struct {
		fail, failure string
		want          []string
	}{
		{"", "", []string{"addresses/web-1", "disks/web-1-data", "disks/web-1-root", "reserved/web-1",
			"running/web-1"}},
		{"address", "no address is left", nil},
		{"disk", "cannot be formatted", nil},
		{"boot", "attempt 2: the kernel panics", nil},
	} {
		t.Run(c.fail, func(t *testing.T) {
			dir := t.TempDir()
			r := begin(t, exampleText(t, "vm.yaml"), commands(t), flow.Values{"dir": dir, "fail": c.fail})
			err := r.Run(t.Context())
			if (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure) {
				t.Errorf("error %v, want %q", err, c.failure)
			}
			if diff := cmp.Diff(c.want, listed(t, dir)); diff != "" {
				t.Errorf("what is left (-want +got):\n%s", diff)
			}
			if c.fail == "" {
				if got, want := read1(t, dir, "running/web-1"), "10.0.0.7 [\""+dir+"/disks/web-1-root\",\""+dir+
					"/disks/web-1-data\"]"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			} else if r.State() != flow.Reverted {
				t.Errorf("state %s", r.State())
			}
		})
	}
}

func TestSaga(t *testing.T) {
	for _, c := range []struct {
		name   string
		inputs flow.Values
		want   []string
	}{
		{"small", nil, []string{"reserve A-1001", "charge 40", "ship for payment-of-reservation-A-1001"}},
		{"large", flow.Values{"amount": 60, "express": true}, []string{
			"ask the manager about 60", "charge 60", "courier A-1001", "reserve A-1001",
			"ship for payment-of-reservation-A-1001"}},
		{"refused", flow.Values{"amount": 101}, []string{"reserve A-1001", "release reservation-A-1001"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ledger := filepath.Join(t.TempDir(), "ledger")
			inputs := flow.Values{"ledger": ledger}
			for k, v := range c.inputs {
				inputs[k] = v
			}
			err := begin(t, exampleText(t, "saga.yaml"), commands(t), inputs).Run(t.Context())
			if (err != nil) != (c.name == "refused") {
				t.Errorf("error %v", err)
			}
			got := strings.Split(read1(t, ledger), "\n")
			if c.name == "large" { // three entries are made at once
				slices.Sort(got)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFanout(t *testing.T) {
	dir := t.TempDir()
	files := []any{}
	for name, text := range map[string]string{"a.txt": "one two", "b c.txt": "three", "x.bin": "no"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	report := filepath.Join(dir, "report")
	in := flow.Values{"files": files, "report": report}
	if err := begin(t, exampleText(t, "fanout.yaml"), commands(t), in).Run(t.Context()); err != nil ||
		read1(t, report) != "3" {
		t.Errorf("got %s, %v", read1(t, report), err)
	}
	in["files"] = append(files, filepath.Join(dir, "missing.txt"))
	r := begin(t, exampleText(t, "fanout.yaml"), commands(t), in)
	if err := r.Run(t.Context()); err == nil || r.State() != flow.Reverted {
		t.Errorf("state %s, %v", r.State(), err)
	}
}

func TestApprove(t *testing.T) {
	dir := t.TempDir()
	page, site := filepath.Join(dir, "page"), filepath.Join(dir, "site")
	if err := os.WriteFile(page, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, exampleText(t, "approve.yaml"), commands(t), flow.Values{"page": page, "site": site})
	rest, err := r.Advance(t.Context())
	if err != nil || rest == nil || !slices.Equal(rest.Signals, []string{"approved"}) {
		t.Fatalf("%+v, %v", rest, err)
	}
	if got := listed(t, site); !slices.Equal(got, []string{"review/page"}) {
		t.Errorf("before the signal: %v", got)
	}
	r.Signal("approved", map[string]any{"by": "Ada"})
	if err := r.Run(t.Context()); err != nil || read1(t, site, "public/page.by") != "approved by Ada" {
		t.Error(err, listed(t, site))
	}

	text := strings.Replace(exampleText(t, "approve.yaml"), "24h", "1ms", 1)
	site = filepath.Join(dir, "other")
	r = begin(t, text, commands(t), flow.Values{"page": page, "site": site})
	if f := failureOf(t, r.Run(t.Context())); f.Type != flow.TypeTimeout || len(listed(t, site)) != 0 {
		t.Errorf("%v, %v", f, listed(t, site))
	}
}
