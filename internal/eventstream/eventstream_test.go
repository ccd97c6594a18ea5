package eventstream

import (
	"errors"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	const stream = ": a comment\nid: 7\nevent: job\ndata: {\ndata:}\n\ndata\n\n\nevent: last\n\ndata: x\r\n\r\ndata: cut"
	var got []string
	err := Read(strings.NewReader(stream), func(name, data string) error {
		got = append(got, name+"="+data)
		return nil
	})
	if want := "job={\n}|=|=x"; err != nil || strings.Join(got, "|") != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestReadEnds(t *testing.T) {
	wrong := errors.New("wrong")
	if err := Read(strings.NewReader("data: x\n\n"), func(string, string) error { return wrong }); err != wrong {
		t.Errorf("got %v", err)
	}
	line := "data: " + strings.Repeat("x", 1<<20) + "\n"
	for name, text := range map[string]string{
		"a message": strings.Repeat(line, 17), "a line": "data: " + strings.Repeat("x", Most+1) + "\n",
	} {
		called := false
		err := Read(strings.NewReader(text+"\n"), func(string, string) error { called = true; return nil })
		if err != ErrTooLong || called {
			t.Errorf("%s that is too long: got %v, called %t", name, err, called)
		}
	}
	err := Read(strings.NewReader(strings.Repeat(line, 15)+"\n"), func(string, string) error { return wrong })
	if err != wrong {
		t.Errorf("a message within the bound: got %v", err)
	}
}
