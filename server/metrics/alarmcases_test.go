package metrics_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/goccy/go-yaml"
)

// alarmCases is docs/alerts_test.yml, as far as the test needs it.
type alarmCases struct {
	Tests []struct {
		Name        string
		InputSeries []struct{ Series string } `yaml:"input_series"`
		AlertTests  []struct {
			Name     string `yaml:"alertname"`
			Expected []struct {
				Labels map[string]string `yaml:"exp_labels"`
			} `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

var instanceLabel = regexp.MustCompile(`instance="([a-z]+)"`)

// untested returns what the cases of promtool lack: for each alarm one that fires, and in the same case another
// instance for which it is silent. It gives alarms of cases that no rule has as well.
func (c *alarmCases) untested(rules map[string]string) (wrong []string) {
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range c.Tests {
		for _, a := range test.AlertTests {
			if _, ok := rules[a.Name]; !ok {
				wrong = append(wrong, a.Name+" is no alarm")
			}
			if len(a.Expected) == 0 {
				continue
			}
			fires[a.Name] = true
			fired := map[string]bool{}
			for _, e := range a.Expected {
				fired[e.Labels["instance"]] = true
			}
			for _, in := range test.InputSeries {
				m := instanceLabel.FindStringSubmatch(in.Series)
				metric := selector.FindStringSubmatch(in.Series)
				named := slices.ContainsFunc(selector.FindAllStringSubmatch(rules[a.Name], -1),
					func(n []string) bool { return n[1] == metric[1] })
				silent[a.Name] = silent[a.Name] || named && !fired[m[1]]
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if !fires[name] {
			wrong = append(wrong, name+" fires in no case")
		} else if !silent[name] {
			wrong = append(wrong, name+" is silent for no instance")
		}
	}
	return wrong
}

// TestAlarmsHaveCases: each rule of docs/alerts.yml has a case in docs/alerts_test.yml in which it fires for one
// instance and not for another. make lint runs the cases with promtool; TestAlarms checks that the metrics exist.
func TestAlarmsHaveCases(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	var cases alarmCases
	for name, to := range map[string]any{"alerts.yml": &file, "alerts_test.yml": &cases} {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, to); err != nil {
			t.Fatal(err)
		}
	}
	rules := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			rules[r.Alert] = r.Expr
		}
	}
	if len(rules) < 19 {
		t.Errorf("only %d rules: the form has changed", len(rules))
	}
	for _, wrong := range cases.untested(rules) {
		t.Error(wrong)
	}
	// The control: a rule without a case, and a case without a rule.
	rules["StagepostNew"] = "stagepost_new > 0"
	delete(rules, "StagepostDown")
	want := []string{"StagepostDown is no alarm", "StagepostDown is no alarm", "StagepostNew fires in no case"}
	if got := cases.untested(rules); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
