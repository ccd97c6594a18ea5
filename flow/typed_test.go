package flow

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type card struct {
	Number string
	Limit  int
}

type receipt struct{ ID string }

var (
	cardKey    = Name[card]("card")
	amountKey  = Name[int]("amount")
	receiptKey = Name[receipt]("receipt")
)

// shop is a flow of typed tasks; the undo appends its arguments to reported.
func shop(reported *[]string, last *Task) Item {
	return Linear("shop",
		Func2("charge", cardKey, amountKey, receiptKey,
			func(ctx context.Context, c card, n int) (receipt, error) {
				return receipt{fmt.Sprint(c.Number, "-", n, "-", CallOf(ctx).Attempt)}, nil
			},
			func(_ context.Context, c card, n int, made *receipt) error {
				*reported = append(*reported, fmt.Sprint(c.Number, " ", n, " ", made.ID))
				return nil
			}),
		last)
}

// TestTypedTasks give and take the same in memory and after everything went through JSON, also in another Runner.
func TestTypedTasks(t *testing.T) {
	given := Join(Put(cardKey, card{"4111", 9}), Put(amountKey, 5))
	for _, disk := range []bool{false, true} {
		for _, bad := range []bool{false, true} {
			t.Run(fmt.Sprint(disk, bad), func(t *testing.T) {
				var reported []string
				var r *rig
				stop := func(e Event) {
					if e.Atom == "charge" && e.New == Success {
						r.Suspend()
					}
				}
				o := Options{Inject: given, Listeners: []Listener{stop}}
				if disk {
					o.Storage = newDisk()
				}
				make := func() Item {
					return shop(&reported, Proc1("ship", receiptKey, func(_ context.Context, got receipt) error {
						reported = append(reported, "ship "+got.ID)
						if bad {
							return errWoot
						}
						return nil
					}, func(_ context.Context, got receipt) error {
						reported = append(reported, "unship "+got.ID)
						return nil
					}))
				}
				r = rigged(t, make(), o)
				r.run(t, Suspended)
				if disk {
					o.Listeners, o.Inject = nil, nil
					r = rigged(t, make(), o)
				}
				err := r.Run(t.Context())
				want := []string{"ship 4111-5-1"}
				if bad {
					want = append(want, "unship 4111-5-1", "4111 5 4111-5-1")
				} else if got, err := Get(r.Runner, receiptKey); err != nil || got.ID != "4111-5-1" {
					t.Errorf("got %v, %v", got, err)
				}
				if diff := cmp.Diff(want, reported); diff != "" || (err != nil) != bad {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			})
		}
	}
}

// TestTypedUndoOfAFailure gets no result.
func TestTypedUndoOfAFailure(t *testing.T) {
	called := false
	r := rigged(t, Func0("a", amountKey, func(context.Context) (int, error) { return 7, errWoot },
		func(ctx context.Context, made *int) error {
			called = made == nil && errors.Is(CallOf(ctx).Failure, errWoot)
			return nil
		}), Options{})
	if err := r.run(t, Reverted); !errors.Is(err, errWoot) || !called {
		t.Errorf("got %v, called rightly: %v", err, called)
	}
}

// TestTypedArities: each kind passes its arguments on in order.
func TestTypedArities(t *testing.T) {
	var got []string
	note := func(v ...any) { got = append(got, fmt.Sprint(v...)) }
	k := func(name string) Key[string] { return Name[string](name) }
	items := []Item{
		Func0("f0", k("v0"), func(context.Context) (string, error) {
			return "a", nil
		}, func(_ context.Context, m *string) error { note("f0 ", *m); return nil }),
		Func1("f1", k("v0"), k("v1"), func(_ context.Context, a string) (string, error) {
			return a + "b", nil
		}, func(_ context.Context, a string, m *string) error {
			note("f1 ", a, *m)
			return nil
		}),
		Func2("f2", k("v0"), k("v1"), k("v2"), func(_ context.Context, a, b string) (string, error) {
			return a + b + "c", nil
		},
			func(_ context.Context, a, b string, m *string) error { note("f2 ", a, b, *m); return nil }),
		Func3("f3", k("v0"), k("v1"), k("v2"), k("v3"), func(_ context.Context, a, b, c string) (string, error) {
			return a + b + c + "d", nil
		},
			func(_ context.Context, a, b, c string, m *string) error { note("f3 ", a, b, c, *m); return nil }),
		Func4("f4", k("v0"), k("v1"), k("v2"), k("v3"), k("v4"),
			func(_ context.Context, a, b, c, d string) (string, error) { return a + b + c + d + "e", nil },
			func(_ context.Context, a, b, c, d string, m *string) error { note("f4 ", a, b, c, d, *m); return nil }),
		Proc0("p0", func(context.Context) error { note("p0"); return nil }, func(context.Context) error {
			note("-p0")
			return nil
		}),
		Proc1("p1", k("v0"), func(_ context.Context, a string) error {
			note("p1 ", a)
			return nil
		}, func(_ context.Context, a string) error { note("-p1 ", a); return nil }),
		Proc2("p2", k("v0"), k("v1"), func(_ context.Context, a, b string) error { note("p2 ", a, " ", b); return nil },
			func(_ context.Context, a, b string) error { note("-p2 ", a, " ", b); return nil }),
		Proc3("p3", k("v0"), k("v1"), k("v0").Or("x"), func(_ context.Context, a, b, c string) error {
			note("p3 ", a, b, c)
			return nil
		},
			func(_ context.Context, a, b, c string) error { note("-p3 ", a, b, c); return nil }),
		Proc4("p4", k("v0"), k("v1"), k("v2"), k("none").Or("x"), func(_ context.Context, a, b, c, d string) error {
			note("p4 ", a, " ", b, " ", c, " ", d)
			return nil
		},
			func(_ context.Context, a, b, c, d string) error { note("-p4 ", d); return nil }),
		fails("bad"),
	}
	r := rigged(t, Linear("f", items...), Options{Storage: newDisk()})
	if err := r.run(t, Reverted); !errors.Is(err, errWoot) {
		t.Fatal(err)
	}
	want := []string{"p0", "p1 a", "p2 a ab", "p3 aaba", "p4 a ab aabc x", "-p4 x", "-p3 aaba", "-p2 a ab", "-p1 a",
		"-p0",
		"f4 aabaabcaabaabcdaabaabcaabaabcde", "f3 aabaabcaabaabcd", "f2 aabaabc", "f1 aab", "f0 a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTypesThatDoNotFit are refused as soon as they can be known, with the atoms' names.
func TestTypesThatDoNotFit(t *testing.T) {
	take := func(_ context.Context, n int) error { return nil }
	text, number := Name[string]("x"), Name[int]("x")
	giver := Func0("a", text, func(context.Context) (string, error) { return "5", nil }, nil)
	_, err := New(Linear("f", giver, Proc1("b", number, take, nil)), Options{})
	wantKind(t, err, ErrInvalid, `b takes "x" as int, and a gives it as string`, "b", "a")
	giver = Func0("a", text, func(context.Context) (string, error) { return "5", nil }, nil)
	// control: a does not give it to b
	if _, err := New(Unordered("f", giver, Proc1("b", number, take, nil)), Options{}); err != nil {
		t.Error(err)
	}
	plain := &Task{Name: "a", Result: One("x"), Execute: func(context.Context, *Call) (any, error) { return "5", nil }}
	for _, stored := range []bool{false, true} {
		o := Options{}
		if stored {
			o.Storage = newDisk()
		}
		for _, c := range []struct {
			v    any
			word string
		}{{"5", `the argument "x" of b is no int`}, {nil, `the argument "x" of b is no int: it is null`}, {4, ""}} {
			plain.Execute = func(context.Context, *Call) (any, error) { return c.v, nil }
			r := rigged(t, Linear("f", plain, Proc1("b", number, take, nil)), o)
			o.Storage = nil
			if stored {
				o.Storage = newDisk()
			}
			err := r.Run(t.Context())
			if c.word == "" {
				if err != nil {
					t.Error(err)
				}
				continue
			}
			wantKind(t, err, ErrInvalid, c.word, "b")
			r.is(t, Reverted)
		}
	}
	r := rigged(t, plain, Options{})
	_, err = Get(r.Runner, number)
	wantKind(t, err, ErrNotFound, `no value "x"`)
	plain.Execute = func(context.Context, *Call) (any, error) { return "five", nil }
	r.run(t, Success)
	_, err = Get(r.Runner, number)
	wantKind(t, err, ErrInvalid, `the value "x" of the flow a is no int`)
	_, err = New(Proc1("b", number, nil, nil), Options{})
	wantKind(t, err, ErrInvalid, "has no function", "b")
	_, err = New(Proc1("b", Name[int](""), take, nil), Options{})
	wantKind(t, err, ErrInvalid, "without a name", "b")
}

// TestWhen decides by a typed result, live or stored.
func TestWhen(t *testing.T) {
	for _, c := range []struct {
		limit int
		want  string
	}{{9, "a SUCCESS, b SUCCESS"}, {1, "a SUCCESS, b IGNORE"}} {
		for _, disk := range []bool{false, true} {
			a := Func0("a", cardKey, func(context.Context) (card, error) { return card{"1", c.limit}, nil }, nil)
			b := gives("b", 1)
			g := Graph("f")
			if err := errors.Join(g.Add(a, b), g.LinkIf(a, b,
				When(a, cardKey, func(c card) bool { return c.Limit > 5 }), DepthAll)); err != nil {
				t.Fatal(err)
			}
			o := Options{}
			if disk {
				o.Storage = newDisk()
			}
			r := rigged(t, g, o)
			if err := r.run(t, Success); err != nil {
				t.Fatal(err)
			}
			r.atoms(t, c.want)
		}
	}
	_, err := When(gives("a", 1), cardKey, func(card) bool { return true })(Values{"a": 1})
	wantKind(t, err, ErrNotFound, `a gives no "card"`, "a")
	if yes, err := When(gives("a", 1), cardKey, nil)(Values{}); !yes || err != nil {
		t.Errorf("an ignored task gives %v, %v", yes, err)
	}
}

// TestCompilerSeesWrongTypes: programs whose tasks do not fit do not compile, and the right one does.
func TestCompilerSeesWrongTypes(t *testing.T) {
	const head = `package p
import ("context"; "github.com/stagepost/stagepost/flow")
var address, size = flow.Name[string]("address"), flow.Name[int]("size")
func sizeOf(context.Context, string) (int, error) { return 0, nil }
func unsize(context.Context, string, *int) error { return nil }
`
	for _, c := range []struct{ line, word string }{
		{`var x = flow.Func1("sizeOf", address, size, sizeOf, unsize)`, ""},
		{`var x = flow.Func1("sizeOf", address, size, sizeOf, nil)`, ""},
		{`var x = flow.Func1("sizeOf", size, size, sizeOf, nil)`, "type func(context.Context, string) (int, error) of sizeOf"},
		{`var x = flow.Func1("sizeOf", address, address, sizeOf, nil)`, "type func(context.Context, string) (int, error) of sizeOf"},
		{`var x = flow.Func1("sizeOf", address, size, sizeOf, func(context.Context, string, *string) error { return nil })`, "does not match"},
		{`var x = flow.Func2("sizeOf", address, size, size, sizeOf, nil)`, "does not match"},
		{`var x = flow.Put(size, "big")`, "cannot use"},
		{`var x = flow.Put(size, 3)`, ""},
		{`func f(r *flow.Runner) { var s string; s, _ = flow.Get(r, size); _ = s }`, "cannot use"},
		{`func f(r *flow.Runner) { var s int; s, _ = flow.Get(r, size); _ = s }`, ""},
		{`var x = size.Or("big")`, "cannot use"},
	} {
		err := compiles(t, head+c.line)
		switch {
		case c.word == "" && err != nil:
			t.Errorf("%s does not compile: %v", c.line, err)
		case c.word != "" && (err == nil || !strings.Contains(err.Error(), c.word)):
			t.Errorf("%s gives %v, want %q", c.line, err, c.word)
		}
	}
}

// imports has this package, by its sources, and what it imports itself.
var imports = struct {
	fset *token.FileSet
	from types.Importer
}{}

// compiles checks the types of a program.
func compiles(t *testing.T, program string) error {
	t.Helper()
	if imports.from == nil {
		if build.Default.GOROOT == "" { // the test was compiled with -trimpath
			out, err := exec.Command("go", "env", "GOROOT").Output()
			if err != nil {
				t.Fatal(err)
			}
			build.Default.GOROOT = strings.TrimSpace(string(out))
		}
		imports.fset = token.NewFileSet()
		imports.from = importer.ForCompiler(imports.fset, "source", nil)
	}
	f, err := parser.ParseFile(imports.fset, "p.go", program, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&types.Config{Importer: imports.from}).Check("p", imports.fset, []*ast.File{f}, nil)
	return err
}
