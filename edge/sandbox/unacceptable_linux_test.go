package sandbox

import (
	"errors"
	"testing"
)

// What can never run as it is asked for is distinguished from what fails for another reason.
func TestUnacceptable(t *testing.T) {
	each(t, func(t *testing.T, s *Sandbox, tier string) {
		dir := t.TempDir()
		for _, one := range []struct {
			name string
			c    Command
			want bool
		}{
			{"a bind in /tmp", Command{Argv: []string{"true"}, Dir: dir, Binds: []Bind{{From: "/usr", To: "/tmp/x"}}},
				true},
			{"a bind of the job's directory", Command{Argv: []string{"true"}, Dir: dir,
				Binds: []Bind{{From: "/usr/share", To: "/job"}}}, true},
			{"a variable with NUL", Command{Argv: []string{"true"}, Dir: dir, Env: []string{"A=\x00"}}, true},
			{"no directory", Command{Argv: []string{"true"}, Dir: dir + "/none"}, false},
			{"no program", Command{Argv: []string{"no-such-thing"}, Dir: dir}, false},
			// tier none shows nothing by itself
			{"a bind of nothing", Command{Argv: []string{"no-such-thing"}, Dir: dir,
				Binds: []Bind{{From: "/nonexistent/x"}}}, tier != None},
		} {
			_, err := s.run(t.Context(), tier, &one.c)
			if _, ok := errors.AsType[*Unacceptable](err); err == nil || ok != one.want {
				t.Errorf("%s: got %v, unacceptable: %v", one.name, err, ok)
			}
		}
		_, err := s.run(t.Context(), tier, &Command{Argv: []string{"true"}, Dir: dir,
			Binds: []Bind{{From: "/usr/share", To: "/opt/share"}}})
		if _, ok := errors.AsType[*Unacceptable](err); ok != (tier == None) { // it has no mounts
			t.Errorf("a bind elsewhere: got %v", err)
		}
	})
}
