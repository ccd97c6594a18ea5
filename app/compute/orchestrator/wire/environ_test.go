package wire

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/policy"
)

func TestEnvironDefaults(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Port: 5000, DBPath: filepath.Join(here, "db.sqlite"), DataPath: filepath.Join(here, "data"),
		MaxAge:   48 * time.Hour,
		Services: map[string]Service{}, DispatchRetries: 5, ScriptPolicy: policy.Off, Sandbox: "require"}
	for _, mode := range []Mode{ServerMode, AgentMode} {
		got, err := Environ([]string{"PATH=/bin", "PORT=", "=odd", "nothing"}, mode)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Error(mode, err, diff)
		}
	}
}

func TestEnviron(t *testing.T) {
	got, err := Environ([]string{
		"PORT=1", "PORT=8080", "MAX_AGE=3600", "DB_PATH=/var/db", "DATA_PATH=/srv/data/../files", "DISPATCH_RETRIES=0",
		"LEGACY_INJECT_TRAP=true",
		"LEGACY_REDISPATCH=1", "STRICT_UPLOAD=yes", "SCRIPT_POLICY=legacy", "COMPAT=strict", "SANDBOX=require",
		"SERVICE_FOO_UPLOAD_URL=http://foo:9000/submit", "SERVICE_FOO_DOWNLOAD_URL=http://foo:9000/retrieve",
		"SERVICE_FOO_TERMINATE_URL=http://foo:9000/kill", "SERVICE_FOO_RUNS_PER_USER=3", "SERVICE_FOO_MAX_RUNS=2",
		"SERVICE_MY_TOOL_UPLOAD_URL=http://tool/submit",
		"SERVICE_UPPERCASE_CLIENTS=http://c1:9000, http://c2:9000/", "SERVICE_UPPERCASE_BIND_RO=/opt/haddock:/opt/x/",
		"SERVICE_BOTH_CLIENTS=http://c3", "SERVICE_BOTH_UPLOAD_URL=http://c0/submit", "SERVICE_BOTH_DOWNLOAD_URL=http://c0/r", "SERVICE_BOTH_TERMINATE_URL=http://c0/k",
		"SERVICE_X_SERVICE_HOST=10.0.0.1", "SERVICE_=x", "SERVICE_EMPTY_UPLOAD_URL=",
	}, ServerMode)
	at := func(base string) Endpoints { return Endpoints{base + "/submit", base + "/retrieve", base + "/kill"} }
	want := Config{Port: 8080, DBPath: "/var/db", DataPath: "/srv/files", MaxAge: time.Hour, LegacyInjectTrap: true,
		LegacyRedispatch: true,
		StrictUpload:     true, ScriptPolicy: policy.Legacy, Compat: Strict, Sandbox: "require",
		Services: map[string]Service{
			"foo":     {Name: "foo", Agents: []Endpoints{at("http://foo:9000")}, RunsPerUser: 3, MaxRuns: 2},
			"my_tool": {Name: "my_tool", Agents: []Endpoints{at("http://tool")}, RunsPerUser: 5, MaxRuns: 10},
			"uppercase": {Name: "uppercase", Agents: []Endpoints{at("http://c1:9000"), at("http://c2:9000")},
				RunsPerUser: 5, MaxRuns: 10, BindRO: []string{"/opt/haddock", "/opt/x"}},
			"both": {Name: "both", Agents: []Endpoints{{"http://c0/submit", "http://c0/r", "http://c0/k"},
				at("http://c3")}, RunsPerUser: 5, MaxRuns: 10},
		},
		Warnings: []string{
			"SERVICE_ ends in none of the words that are known for a service, and is ignored",
			"SERVICE_X_SERVICE_HOST ends in none of the words that are known for a service, and is ignored",
			"SERVICE_MY_TOOL_DOWNLOAD_URL is missing; /retrieve beside the upload address is used",
			"SERVICE_MY_TOOL_TERMINATE_URL is missing; /kill beside the upload address is used",
		}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, ok := got.Services["EXAMPLE"]; ok {
		t.Error("a service that is not there is found")
	}
	if _, ok := got.Services["FOO"]; ok {
		t.Error("the name of a service is in lower case")
	}
}

func TestEnvironReportsAllMistakes(t *testing.T) {
	bad := map[string]string{
		"PORT": "65536", "MAX_AGE": "2d", "DISPATCH_RETRIES": "-1", "LEGACY_INJECT_TRAP": "maybe",
		"LEGACY_REDISPATCH": "2", "STRICT_UPLOAD": "x",
		"SCRIPT_POLICY": "strict", "COMPAT": "original", "SANDBOX": "docker",
		"SERVICE_A_UPLOAD_URL": "a:9000", "SERVICE_A_RUNS_PER_USER": "70000", "SERVICE_A_MAX_RUNS": "ten",
		"SERVICE_A_BIND_RO":      "opt",
		"SERVICE_B_DOWNLOAD_URL": "http://user:secret@b b/", "SERVICE_C_CLIENTS": "http://c,http://c,c",
		"SERVICE_D_MAX_RUNS":  "3",
		"SERVICE__UPLOAD_URL": "http://x", "SERVICE_e.f_UPLOAD_URL": "http://x",
	}
	var env []string
	for name, value := range bad {
		env = append(env, name+"="+value)
	}
	env = append(env, "SERVICE_G_MAX_RUNS=1", "SERVICE_g_MAX_RUNS=2", "SERVICE_G_CLIENTS=http://g")
	got, err := Environ(env, ServerMode)
	if err == nil {
		t.Fatalf("taken as %v", got)
	}
	if diff := cmp.Diff(Config{}, got); diff != "" {
		t.Error(diff)
	}
	for name := range bad {
		reported := name == "SERVICE_D_MAX_RUNS" || strings.Contains(err.Error(), name+" ")
		if !reported {
			t.Errorf("%s is not among the mistakes", name)
		}
	}
	for _, part := range []string{"SERVICE_D_UPLOAD_URL is missing, and SERVICE_D_CLIENTS too", "SERVICE_B_UPLOAD_URL is missing, while another",
		"SERVICE_g_MAX_RUNS has the same meaning as SERVICE_G_MAX_RUNS", "(number 2) is there twice", "(number 3) must begin with http"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not among the mistakes", part)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a password is shown: %v", err)
	}
	if _, err := Environ([]string{"SERVICE_D_MAX_RUNS=3"}, AgentMode); err != nil {
		t.Errorf("an agent needs no agent: %v", err)
	}
	if _, err := Environ(nil, "client"); err == nil {
		t.Error("an unknown mode is taken")
	}
}

// TestEnvironQuotaOfZero: a server's quota of 0 is reported once, with all other mistakes; what is no number is not
// called 0.
func TestEnvironQuotaOfZero(t *testing.T) {
	_, err := Environ([]string{"PORT=abc", "SERVICE_EXAMPLE_RUNS_PER_USER=0", "SERVICE_x_MAX_RUNS=+00", "SERVICE_X_UPLOAD_URL=http://127.0.0.1:1/submit", "SERVICE_X_RUNS_PER_USER=many"}, ServerMode)
	want := []string{
		"PORT must be a whole number from 0 to 65535", "SERVICE_EXAMPLE_RUNS_PER_USER " + compute.NeverRuns("example"), "SERVICE_X_RUNS_PER_USER must be a whole number from 0 to 65535",
		"SERVICE_x_MAX_RUNS " + compute.NeverRuns("x"), "SERVICE_EXAMPLE_UPLOAD_URL is missing, and SERVICE_EXAMPLE_CLIENTS too: the service has no agent",
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
	if !strings.HasSuffix(compute.NeverRuns("x"), "stagepost hold --group x --note WHY") {
		t.Errorf("got %s", compute.NeverRuns("x"))
	}
	if _, err := Environ([]string{"SERVICE_X_MAX_RUNS=0"}, AgentMode); err != nil {
		t.Errorf("an agent has no quotas: %v", err)
	}
}

func TestEnvironForEver(t *testing.T) {
	got, err := Environ([]string{"MAX_AGE=18446744073709551615"}, ServerMode)
	if err != nil || got.MaxAge < 100*365*24*time.Hour {
		t.Error(got.MaxAge, err)
	}
	if _, err := Environ([]string{"MAX_AGE=0"}, ServerMode); err == nil {
		t.Error("results that are removed at once are no use")
	}
}

func TestVariables(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range Variables() {
		if v.Meaning == "" || seen[v.Name] {
			t.Errorf("%s is there twice or means nothing", v.Name)
		}
		seen[v.Name] = true
	}
	if len(seen) != 18 || !seen["SERVICE_<NAME>_UPLOAD_URL"] {
		t.Errorf("%d variables", len(seen))
	}
}

func FuzzEnviron(f *testing.F) {
	f.Add("SERVICE_A_B_UPLOAD_URL", "http://x/submit", "SERVICE_A_B_CLIENTS", "http://y,http://z")
	f.Add("PORT", "+80", "MAX_AGE", "99999999999999999999")
	f.Add("SERVICE__CLIENTS", ",", "SERVICE_X_BIND_RO", ":")
	f.Add("SERVICE_UPLOAD_URL", "http://[::1]:9/x?y", "SERVICE_DOWNLOAD_URL_UPLOAD_URL", "http://%")
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string) {
		c, err := Environ([]string{n1 + "=" + v1, n2 + "=" + v2}, ServerMode)
		if err != nil {
			return
		}
		for name, s := range c.Services {
			if s.Name != name || len(s.Agents) == 0 || !serviceName(name) {
				t.Errorf("service %q: %v", name, s)
			}
			for _, e := range s.Agents {
				if _, err := NewClient(e, ClientOptions{}); err != nil {
					t.Errorf("%v: %v", e, err)
				}
			}
		}
	})
}
