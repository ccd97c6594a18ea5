package api_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
)

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "2h30m": 150 * time.Minute, "1d": 24 * time.Hour,
		"1d12h": 36 * time.Hour, "300ms": 300 * time.Millisecond, "0": 0,
	} {
		if got, err := api.ParseSeconds(text); got != want || err != nil {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "d", "1d-1h", "x", "NaN", "1e300", "200000d"} {
		if got, err := api.ParseSeconds(text); err == nil {
			t.Errorf("%q: got %s", text, got)
		}
	}
}

func TestComputeLimits(t *testing.T) {
	got, err := api.ParseComputeLimits("wall=10m, " +
		"memory=2GiB,cpu=30,processes=64,cores=1.5,files=9,disk=1GiB,output=1MiB")
	want := api.ComputeLimits{
		Wall: api.Seconds(10 * time.Minute), CPU: api.Seconds(30 * time.Second), Memory: 2 << 30, Disk: 1 << 30,
		Output: 1 << 20, Processes: 64, Cores: 1.5, Files: 9,
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	text, err := json.Marshal(got)
	var again api.ComputeLimits
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil || again != want || !strings.Contains(string(text), `"wall":600,`) {
		t.Errorf("%s became %+v, %v", text, again, err)
	}
	for _, text := range []string{"wall=0s", "cpu=0s", "memory=0", "disk=0", "output=0", "processes=0", "cores=0",
		"files=0", "wall=1h,wall=0s",
		"", "wall", "wall=", "speed=1", "cores=-1", "cores=NaN", "files=x", "disk=1G",
		"memory=-1"} {
		if got, err := api.ParseComputeLimits(text); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

// TestAmountsInJSON: numbers in any form that JSON has, and texts.
func TestAmountsInJSON(t *testing.T) {
	for text, want := range map[string]api.ComputeLimits{
		`{"memory":1e9,"disk":1024.0,"output":7}`:         {Memory: 1e9, Disk: 1024, Output: 7},
		`{"memory":9223372036854775807,"disk":"1.5 GiB"}`: {Memory: 1<<63 - 1, Disk: 3 << 29},
		`{"wall":1.5,"cpu":"1d12h"}`: {Wall: api.Seconds(1500 * time.Millisecond),
			CPU: api.Seconds(36 * time.Hour)},
	} {
		var got api.ComputeLimits
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"memory":-1}`, `{"memory":1.5}`, `{"memory":"4G"}`, `{"memory":true}`,
		`{"memory":1e19}`, `{"wall":-1}`, `{"wall":"soon"}`, `{"wall":1e300}`} {
		var got api.ComputeLimits
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s: got %+v", text, got)
		}
	}
}

// FuzzComputeScript: bash gives the words back as they were, whatever they are.
func FuzzComputeScript(f *testing.F) {
	for _, s := range []string{"a b", "it's", "$(id)", "`id`", "\\", "!x", "*", "\n", "'", "-e", "ü", "\xff"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		c := api.ComputeCommand{Words: []string{"printf", "%s\n.%s", a, b}}
		script, err := c.Script()
		if strings.ContainsRune(a+b, 0) {
			if err == nil {
				t.Error("a NUL was accepted")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-s")
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.Output()
		if err != nil || string(out) != a+"\n."+b {
			t.Errorf("got %q, want %q: %v", out, a+"\n."+b, err)
		}
	})
}
