package client_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1048576": 1 << 20, "512MiB": 512 << 20, "4G": 4 << 30, "4g": 4 << 30, "4GB": 4e9, "1.5GiB": 3 << 29, "7B": 7, "2 KiB": 2048, "9223372036854775807": 1<<63 - 1,
	} {
		if got, err := client.ParseBytes(text); got != want || err != nil {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "much", "G", "1X", "1GiBs", "1e400", "NaN", "Inf", "9e18G", "1 2", "i"} {
		if got, err := client.ParseBytes(text); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
}

func TestParseSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "2h30m": 150 * time.Minute, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "300ms": 300 * time.Millisecond, "0": 0,
	} {
		if got, err := client.ParseSeconds(text); got != want || err != nil {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "d", "1d-1h", "x", "NaN", "1e300", "70000d", "1w"} {
		if got, err := client.ParseSeconds(text); err == nil {
			t.Errorf("%q: got %s", text, got)
		}
	}
}

func TestComputeLimits(t *testing.T) {
	got, err := client.ParseComputeLimits("wall=10m, memory=2GiB,cpu=30,processes=64,cores=1.5,files=9,disk=1G,output=1M")
	want := client.ComputeLimits{
		Wall: client.Seconds(10 * time.Minute), CPU: client.Seconds(30 * time.Second), Memory: 2 << 30, Disk: 1 << 30, Output: 1 << 20, Processes: 64, Cores: 1.5, Files: 9,
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	text, err := json.Marshal(got)
	var again client.ComputeLimits
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil || again != want || !strings.Contains(string(text), `"wall":600,`) {
		t.Errorf("%s became %+v, %v", text, again, err)
	}
	for _, text := range []string{"", "wall", "wall=", "speed=1", "cores=-1", "cores=NaN", "files=x"} {
		if got, err := client.ParseComputeLimits(text); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

// FuzzComputeScript: bash gives the words back as they were, whatever they are.
func FuzzComputeScript(f *testing.F) {
	for _, s := range []string{"a b", "it's", "$(id)", "`id`", "\\", "!x", "*", "\n", "'", "-e", "ü", "\xff"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		c := client.ComputeCommand{Words: []string{"printf", "%s\n.%s", a, b}}
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

// FuzzParseBytes: what is read is never negative.
func FuzzParseBytes(f *testing.F) {
	f.Add("4GiB")
	f.Add("1e3")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := client.ParseBytes(text); err == nil && n < 0 {
			t.Errorf("%q is %d", text, n)
		}
	})
}
