package ocfl

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func isKind(err, kind error) bool { return errors.Is(err, kind) }

func TestStageOfALiveAttempt(t *testing.T) {
	r, dir := newRoot(t)
	write(t, dir, stagingDir+"/dead/object/v1/content/x", "left by a crash")
	reached, release := make(chan struct{}), make(chan struct{})
	slow := File{Path: "slow", Size: -1, Open: func() (io.ReadCloser, error) {
		close(reached)
		<-release
		return io.NopCloser(&pattern{3}), nil
	}}
	result := make(chan error, 1)
	go func() {
		_, err := r.AddVersion(t.Context(), testID, version("slow", slow), Options{Stage: "live"})
		result <- err
	}()
	<-reached
	if _, err := r.AddVersion(t.Context(), testID, version("", text("a", "A")), Options{Stage: "live"}); !errors.Is(err,
		ErrBusy) {
		t.Errorf("stage of a live attempt: got %v, want ErrBusy", err)
	}
	if got, err := r.Stages(); err != nil ||
		!slices.Equal(slices.Sorted(slices.Values(got)), []string{"dead", "live"}) {
		t.Errorf("stages %v, %v", got, err)
	}
	if got, err := r.Sweep(); err != nil || !slices.Equal(got, []string{"dead"}) {
		t.Errorf("swept %v, %v; want the crashed one only", got, err)
	}
	close(release)
	if err := <-result; err != nil {
		t.Errorf("the live attempt: %v", err)
	}
	mustValidate(t, dir)
}

func TestSweepRemovesEmptyStaging(t *testing.T) {
	r, dir := newRoot(t)
	if err := os.Mkdir(filepath.Join(dir, stagingDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Sweep(); err != nil || len(got) != 0 {
		t.Errorf("swept %v, %v", got, err)
	}
	mustValidate(t, dir)
}

// TestBefore: the function is called when the version is staged and the object does not have it, for a new object with
// and without the directories above it and for a further version. Its error leaves the object as before. The control is
// the call without an error.
func TestBefore(t *testing.T) {
	r, dir := newRoot(t)
	failed := errors.New("no")
	for n, id := range []string{testID, testID, testID + "-other"} {
		head := func() string {
			o, err := r.Object(id)
			if isKind(err, ErrNotFound) {
				return ""
			}
			if err != nil {
				t.Fatal(err)
			}
			return o.Head()
		}
		was, calls := head(), 0
		o := Options{Stage: "s", Before: func() error {
			calls++
			if now := head(); now != was {
				t.Errorf("%d: the object has %q before the call", n, now)
			}
			staged, err := r.Stages()
			if err != nil || len(staged) != 1 {
				t.Errorf("%d: stages %q, %v", n, staged, err)
			}
			return failed
		}}
		v := version("load", text("a", id+was))
		if _, err := r.AddVersion(t.Context(), id, v, o); !isKind(err, failed) || calls != 1 || head() != was {
			t.Errorf("%d: got %v after %d calls, head %q", n, err, calls, head())
		}
		failed = nil
		if _, err := r.AddVersion(t.Context(), id, v, o); err != nil || calls != 2 || head() == was {
			t.Errorf("%d: control: got %v after %d calls, head %q", n, err, calls, head())
		}
		failed = errors.New("no")
	}
	mustValidate(t, dir)
}
