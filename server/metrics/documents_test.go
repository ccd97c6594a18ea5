package metrics_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/stagepost/stagepost/server/metrics"
)

// known are the metrics that there are, each with its labels.
type known map[string]map[string]bool

// catalog lists every metric with its labels, of a server to which everything has happened.
func catalog(t *testing.T) known {
	t.Helper()
	families, err := everything(t).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := known{"up": {}}
	for _, f := range families {
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		if f.GetMetric()[0].GetHistogram() == nil {
			all[f.GetName()] = labels
			continue
		}
		for _, part := range []string{"_sum", "_count"} {
			all[f.GetName()+part] = labels
		}
		labels = maps.Clone(labels)
		labels["le"] = true
		all[f.GetName()+"_bucket"] = labels
	}
	return all
}

var (
	selector = regexp.MustCompile(`\b(stagepost_[a-z_]+|up)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping = regexp.MustCompile(`\b(?:by|without)\s*\(([^)]*)\)`)
)

// check returns what an expression names that there is not: a metric, or a label of none of its metrics.
func (k known) check(expr string) (wrong []string) {
	labels := map[string]bool{"instance": true, "job": true} // those of Prometheus itself
	named := selector.FindAllStringSubmatch(expr, -1)
	if len(named) == 0 {
		return []string{"no metric"}
	}
	for _, m := range named {
		own, ok := k[m[1]]
		if !ok {
			wrong = append(wrong, m[1])
			continue
		}
		for name := range own {
			labels[name] = true
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !own[l[1]] && l[1] != "instance" && l[1] != "job" {
				wrong = append(wrong, m[1]+"{"+l[1]+"}")
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, name := range strings.Split(g[1], ",") {
			if name = strings.TrimSpace(name); !labels[name] {
				wrong = append(wrong, "by "+name)
			}
		}
	}
	return wrong
}

// TestCheckSees is the control of the two tests below.
func TestCheckSees(t *testing.T) {
	all := catalog(t)
	for expr, want := range map[string][]string{
		`sum by (state) (stagepost_jobs{kind="x"})`: nil,
		`stagepost_jobz`:                                  {"stagepost_jobz"},
		`stagepost_jobs{colour!="red"}`:                   {"stagepost_jobs{colour}"},
		`sum by (cause) (stagepost_jobs)`:                 {"by cause"},
		`rate(stagepost_commit_duration_seconds[5m])`:     {"stagepost_commit_duration_seconds"},
		`sum by (le) (stagepost_commit_operations_count)`: {"by le"},
		`vector(1)`: {"no metric"},
		`stagepost_disk_free_bytes / stagepost_disk_percent`: {"stagepost_disk_percent"},
	} {
		if got := all.check(expr); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}

// TestDashboard reads docs/grafana.json: every panel has expressions, and they name only what there is.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	type source struct {
		UID string `json:"uid"`
	}
	var board struct {
		SchemaVersion int    `json:"schemaVersion"`
		UID           string `json:"uid"`
		Panels        []struct {
			ID         int
			Type       string
			Title      string
			Datasource source
			Targets    []struct {
				Expr       string
				Datasource source
			}
		}
		Templating struct {
			List []struct{ Name, Type string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if board.SchemaVersion < 41 || board.UID == "" || len(board.Templating.List) == 0 ||
		board.Templating.List[0].Type != "datasource" {
		t.Errorf("got schema %d, uid %q, variables %v", board.SchemaVersion, board.UID, board.Templating.List)
	}
	all, ids, panels := catalog(t), map[int]bool{}, 0
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("%s: number %d stands there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if panels++; len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s: %d expressions of %s", p.Title, len(p.Targets), p.Datasource.UID)
		}
		for _, target := range p.Targets {
			if wrong := all.check(target.Expr); len(wrong) > 0 || target.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %s: there is no %v", p.Title, target.Expr, wrong)
			}
		}
	}
	if panels < 20 {
		t.Errorf("only %d panels: the form has changed", panels)
	}
}

// TestEveryMetricIsShown: what is worth counting is worth a panel or an alarm.
func TestEveryMetricIsShown(t *testing.T) {
	var shown strings.Builder
	for _, name := range []string{"../../docs/grafana.json", "../../docs/alerts.yml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(text)
	}
	for name := range catalog(t) {
		base := name
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, part)
		}
		if strings.HasPrefix(name, "stagepost_") && !strings.Contains(shown.String(), base) &&
			!slices.Contains(quiet, base) {
			t.Errorf("%s stands neither on the dashboard nor in an alarm", base)
		}
	}
}

// quiet are metrics for investigations.
var quiet = []string{"stagepost_jobs_claimed", "stagepost_outbox_delivery_duration_seconds"}

// TestAlarms reads docs/alerts.yml: every alarm has a severity, a sentence and a heading in docs/operating.md, and its
// expression names only what there is.
func TestAlarms(t *testing.T) {
	text, err := os.ReadFile("../../docs/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.NewDecoder(strings.NewReader(string(text)), yaml.Strict()).Decode(&file); err != nil {
		t.Fatal(err)
	}
	all, seen := catalog(t), map[string]bool{}
	anchor := regexp.MustCompile(`^docs/operating\.md#alarm-[a-z-]+$`)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || !strings.HasPrefix(r.Alert, "Stagepost") {
				t.Errorf("the name %q stands there twice or is none", r.Alert)
			}
			seen[r.Alert] = true
			if wrong := all.check(r.Expr); len(wrong) > 0 {
				t.Errorf("%s: there is no %v", r.Alert, wrong)
			}
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			if !strings.HasSuffix(r.Annotations["summary"], ".") || !anchor.MatchString(r.Annotations["runbook"]) {
				t.Errorf("%s: %v", r.Alert, r.Annotations)
			}
			labels := regexp.MustCompile(`\$labels\.([a-z_]+)`)
			for _, l := range labels.FindAllStringSubmatch(r.Annotations["summary"], -1) {
				if !strings.Contains(r.Expr, l[1]) && l[1] != "instance" && l[1] != "place" {
					t.Errorf("%s: its sentence names the label %s, which its expression has not", r.Alert, l[1])
				}
			}
		}
	}
	for _, topic := range []string{"OutboxLag", "Abandoned", "Stuck", "DiskRoom", "ClaimsLost", "CommitsSlow",
		"NoProgress", "RetentionFrozen"} {
		if !seen["Stagepost"+topic] {
			t.Errorf("there is no alarm Stagepost%s", topic)
		}
	}
}

// TestBindLater: metrics that are read before they are bound are those without a source.
func TestBindLater(t *testing.T) {
	if got := page(t, metrics.New(metrics.Options{})); !strings.Contains(got, "stagepost_build_info{") ||
		strings.Contains(got, "stagepost_slots") {
		t.Errorf("got %s", got)
	}
}
