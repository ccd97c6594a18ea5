package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// rowsOf serves 264 rows of a list page by page, 50 at a time unless the request names a limit.
func rowsOf(name string) http.HandlerFunc {
	const all = 264
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		limit, at := 50, 0
		if text := q.Get("limit"); text != "" {
			limit, _ = strconv.Atoi(text)
		}
		limit = min(limit, 100) // a server may give fewer than it was asked for
		at, _ = strconv.Atoi(q.Get("after"))
		rows := []map[string]any{}
		for i := at; i < min(at+limit, all); i++ {
			id := fmt.Sprintf("row-%03d", i)
			row := map[string]any{"id": id, "key": id, "path": id, "ark": id, "object": id}
			row["batch"] = map[string]any{"id": id}
			if name == "stuck" || name == "entries" || name == "archives" {
				row["job"] = id
			}
			rows = append(rows, row)
		}
		page := map[string]any{name: rows, "found": all}
		if next := at + limit; next < all {
			page["next"] = strconv.Itoa(next)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page)
	}
}

// auditOf serves 264 entries of the audit list: pages of 100 going forward, or the newest ones.
func auditOf(w http.ResponseWriter, r *http.Request) {
	const all = 264
	q := r.URL.Query()
	from, to, page := 0, all, map[string]any{}
	if q.Has("after") {
		from, _ = strconv.Atoi(q.Get("after"))
		if to = min(from+100, all); to < all {
			page["next"] = strconv.Itoa(to)
		}
	} else {
		last, _ := strconv.Atoi(q.Get("limit"))
		from = max(0, all-last)
	}
	rows := []map[string]any{}
	for i := from; i < to; i++ {
		rows = append(rows, map[string]any{"seq": i + 1, "object": fmt.Sprintf("row-%03d", i)})
	}
	page["entries"] = rows
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page)
}

// listing are the commands that list page by page, and what the server answers to them.
var listing = map[string]struct {
	args, route, name string
}{
	"stagepost ingest list":    {"ingest list", "/api/v1/jobs", "jobs"},
	"stagepost list":           {"list", "/api/v1/jobs", "jobs"},
	"stagepost ingest objects": {"ingest objects", "/api/v1/ingest/objects", "objects"},
	"stagepost flow list":      {"flow list", "/api/v1/jobs", "jobs"},
	"stagepost compute jobs":   {"compute jobs", "/api/v1/compute/jobs", "jobs"},
	"stagepost ingest hooks":   {"ingest hooks", "/api/v1/hooks", "hooks"},
	"stagepost admin outbox":   {"admin outbox", "/api/v1/outbox", "messages"},
	"stagepost ingest files": {"ingest files ing_00000000000000000000000001",
		"/api/v1/ingest/jobs/ing_00000000000000000000000001/files", "files"},
	"stagepost archive list":  {"archive list", "/api/v1/archive/archives", "archives"},
	"stagepost archive hooks": {"archive hooks", "/api/v1/archive/hooks", "hooks"},
	"stagepost fixity report": {"fixity report", "/api/v1/fixity/objects", "objects"},
	"stagepost admin audit":   {"admin audit", "/api/v1/audit", ""},
}

// TestListsInAPipeAreWhole: a program that reads a list gets every row; a limit that was asked for is kept, and a
// terminal shows how many rows are missing. Every command that pages is named in listing.
func TestListsInAPipeAreWhole(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, name := range []string{"limit", "last"} {
			// stuck has one page
			if f := cmd.Flags().Lookup(name); f != nil && f.Value.Type() == "int" && cmd.Name() != "stuck" {
				if _, ok := listing[cmd.CommandPath()]; !ok {
					t.Errorf("%s lists, and is missing here", cmd.CommandPath())
				}
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newCall(nil, new(bytes.Buffer), new(bytes.Buffer)).Root())
	for path, l := range listing {
		t.Run(path, func(t *testing.T) {
			mux := http.NewServeMux()
			serve, flag := rowsOf(l.name), "--limit"
			if path == "stagepost admin audit" {
				serve, flag = auditOf, "--last"
			}
			mux.HandleFunc("GET "+l.route, serve)
			web := httptest.NewServer(mux)
			t.Cleanup(web.Close)
			for more, want := range map[string]int{"": 264, "-o json": 264, "--all": 264, "--limit 7": 7,
				"--limit 7 -o json": 7, "--limit 50 -o table": 50} {
				var out, errs bytes.Buffer
				args := strings.Fields(l.args + " --server " + web.URL + " " + strings.ReplaceAll(more, "--limit",
					flag))
				if code := run(args, strings.NewReader(""), &out, &errs); code != 0 {
					t.Fatalf("%v: exit code %d: %s", args, code, &errs)
				}
				seen := 0
				for i := range 264 {
					if strings.Contains(out.String(), fmt.Sprintf("row-%03d", i)) {
						seen++
					}
				}
				if seen != want {
					t.Errorf("%q gives %d rows, want %d", more, seen, want)
				}
				hint := strings.Contains(out.String()+errs.String(), "50 shown, and more exist: --all")
				if table := strings.Contains(more, "table"); hint != table {
					t.Errorf("%q: it reports more rows: %t", more, hint)
				}
			}
		})
	}
}
