package tes

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStandard: a task as Funnel's client writes it is the same task; what is a user's own name is not touched.
func TestStandard(t *testing.T) {
	const camel = `{"name":"x","resources":{"cpuCores":2,"ramGb":1.5,"diskGb":10,"backendParameters":{"cpuCores":"kept"},"backendParametersStrict":true},
		"outputs":[{"path":"/a*","pathPrefix":"/a","url":"file:///o"}],"tags":{"diskGb":"kept"},"volumes":["ramGb"],
		"executors":[{"image":"i","command":["pathPrefix"],"ignoreError":true,"env":{"ignoreError":"kept"}}]}`
	var got Task
	if err := json.Unmarshal(Standard([]byte(camel)), &got); err != nil {
		t.Fatal(err)
	}
	want := Task{
		Name: "x", Resources: &Resources{Cores: 2, RAM: 1.5, Disk: 10,
			Parameters: map[string]string{"cpuCores": "kept"}, Strict: true},
		Outputs: []Output{{Path: "/a*", PathPrefix: "/a", URL: "file:///o"}}, Tags: map[string]string{"diskGb": "kept"},
		Volumes: []string{"ramGb"},
		Executors: []Executor{{Image: "i", Command: []string{"pathPrefix"}, IgnoreError: true,
			Env: map[string]string{"ignoreError": "kept"}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, text := range []string{`{"name":"x","resources":{"cpu_cores":2}}`, `no JSON`, `{} {}`, `[1]`, `{"resources":{"cpuCores":1,"cpu_cores":2}}`, `{"resources":7}`} {
		if got := string(Standard([]byte(text))); got != text {
			t.Errorf("%s became %s", text, got)
		}
	}
}

// TestStorageOnce: a directory of inputs and of outputs is one storage.
func TestStorageOnce(t *testing.T) {
	a := &Adapter{options: Options{Roots: []string{"/a", "/b"}, Outputs: []string{"/b", "/c"}}}
	if d := cmp.Diff([]string{"file:///a", "file:///b", "file:///c"}, a.Info("1", "http://h").Storage); d != "" {
		t.Error(d)
	}
}
