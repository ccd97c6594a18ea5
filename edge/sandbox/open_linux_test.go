package sandbox

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestClose(t *testing.T) {
	s := ungrouped(t)
	began, ended := make(chan int, 1), make(chan Ending, 1)
	go func() {
		e, _ := s.Run(context.Background(), &Command{Argv: []string{"sleep", "600"}, Dir: t.TempDir(),
			Started: func(pid int) { began <- pid }})
		ended <- e
	}()
	<-began
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if e := <-ended; e.Cause != Killed {
		t.Errorf("got %+v, want killed", e)
	}
	if _, err := s.Run(t.Context(), &Command{Argv: []string{"true"}, Dir: t.TempDir()}); !errors.Is(err, errClosed) {
		t.Errorf("got %v, want that it is closed", err)
	}
}

func TestProbeDegrades(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := ungrouped(t)
	found := false
	for _, c := range s.Checks() {
		if c.Name == "tier bwrap" {
			found = true
			if c.OK || c.Detail != "there is no bwrap in PATH" || c.Remedy != "install bubblewrap" {
				t.Errorf("got %+v, want a remedy", c)
			}
		}
	}
	if !found {
		t.Error("there is no check of bwrap")
	}
	if _, err := open(t.Context(), Options{Tier: Bwrap}, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "there is no bwrap") {
		t.Errorf("got %v, want no other tier", err)
	}
	if _, err := open(t.Context(), Options{Tier: "jail"}, nil, nil); err == nil ||
		!regexp.MustCompile(`no sandbox tier "jail".*require`).MatchString(err.Error()) {
		t.Errorf("got %v, want what there is", err)
	}
	none, err := open(t.Context(), Options{Tier: None}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	warned := false
	for _, c := range none.Checks() {
		warned = warned || c.Name == "confinement" && !c.OK && c.Remedy != ""
	}
	if none.Tier() != None || !warned {
		t.Errorf("got %s, %+v, want a warning", none.Tier(), none.Checks())
	}
}
