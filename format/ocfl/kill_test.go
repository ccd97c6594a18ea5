package ocfl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
)

const childDir = "OCFL_TEST_CHILD_DIR"

// TestChild is the other process of TestKilledProcess; without it there is nothing to do here.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	r, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	stuck := File{Path: "b", Size: -1, Open: func() (io.ReadCloser, error) {
		fmt.Println("ready")
		return os.Stdin, nil // which stays open until the parent kills this process
	}}
	_, err = r.AddVersion(t.Context(), testID, version("child", text("a", "A"), stuck),
		Options{Stage: "job.1", Key: "job"})
	t.Fatalf("still alive: %v", err)
}

// TestKilledProcess kills a writer in the middle: its locks go with it, and the same work can be done again.
func TestKilledProcess(t *testing.T) {
	r, dir := newRoot(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(exe, "-test.run=^TestChild$")
	child.Env = append(os.Environ(), childDir+"="+dir)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("output of the child: %q, %v", line, err)
	}
	if _, err := r.AddVersion(t.Context(), testID, version("x"), Options{Stage: "job.1"}); !errors.Is(err, ErrBusy) {
		t.Errorf("stage of a live process: got %v, want ErrBusy", err)
	}
	if swept, err := r.Sweep(); err != nil || len(swept) > 0 {
		t.Errorf("swept %v, %v while the process lives", swept, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("the child ended well")
	}
	added := add(t, r, testID, version("child", text("a", "A"), text("b", "B")), Options{Stage: "job.2", Key: "job"})
	if added.Version != "v1" || !added.Created {
		t.Errorf("added %+v", added)
	}
	if swept, err := r.Sweep(); err != nil || !slices.Equal(swept, []string{"job.1"}) {
		t.Errorf("swept %v, %v; want job.1", swept, err)
	}
	mustValidate(t, dir)
}
