package notation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/lifecycle"
)

func read(t *testing.T, name string) (string, []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, text
}

func parse(t *testing.T, name string) *Document {
	t.Helper()
	d, err := Parse(read(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// positions returns problems as "line:column state rule" lines, without their sentences.
func positions(problems []Problem) []string {
	lines := []string{}
	for _, p := range problems {
		state, _, _ := strings.Cut(p.Message, ":")
		lines = append(lines, Problem{p.Line, p.Column, p.Rule, state}.String())
	}
	return lines
}

// TestLintFindsTheContradictionsOfTheDocuments checks the diagrams of the documents from which the lifecycles come,
// unchanged, against the rules.
func TestLintFindsTheContradictionsOfTheDocuments(t *testing.T) {
	for _, c := range []struct {
		file string
		want []string
	}{
		{"archive-success.mmd", nil},
		{"archive-error.mmd", []string{
			"12:19: Sign [missing-sentence]",                    // elsewhere it is called Signing
			"15:9: Processing [missing-sentence]",               // means PreProcessing
			"15:9: Processing [unreachable-state]",              //
			"26:9: RecoverableError -retry-> [two-transitions]", // back to which phase?
			"27:9: RecoverableError -retry-> [two-transitions]", //
			"28:9: RecoverableError -retry-> [two-transitions]", //
			"29:9: RecoverableError -retry-> [two-transitions]", //
			"32:17: Completed [wrong-outcome]",                  // a failed job completes
			"34:5: Failure -to ErrorHandling-> [end-left]",      // and final means nothing
			"43:5: Signing [unreachable-state]", "43:5: Signing [dead-end]",
			"50:5: Timeout [unreachable-state]", // described, and nothing leads there
		}},
		{"merritt-batch.mmd", nil},
		{"merritt-job.mmd", nil},
		{"merritt-access.mmd", nil},
		{"orchestrator.mmd", []string{"8:19: Unknown [no-budget]"}},
		{"taskflow-flow.yaml", []string{
			"4:5: PENDING [no-failure-exit]", "9:5: RUNNING [no-timeout-exit]", "9:5: RUNNING [no-budget]",
			"18:5: SUSPENDING [no-timeout-exit]",
			"26:5: SUSPENDED [no-wakeup]", "31:5: RESUMING [no-failure-exit]", "31:5: RESUMING [no-timeout-exit]",
			"36:5: SUCCESS [wrong-outcome]", "41:9: SUCCESS -run-> [end-left]", "47:9: REVERTED -run-> [end-left]",
			"53:9: FAILURE -run-> [end-left]",
		}},
		{"taskflow-task.mmd", []string{"3:13: PENDING [no-budget]", "6:17: FAILURE [no-budget]"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			file, text := read(t, c.file)
			want := c.want
			if want == nil {
				want = []string{}
			}
			if diff := cmp.Diff(want, positions(Lint(file, text))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompareFindsWhereTheDocumentsDisagree compares a diagram that releases a held batch to Processing with prose that
// releases it to Pending.
func TestCompareFindsWhereTheDocumentsDisagree(t *testing.T) {
	var got []string
	for _, d := range Compare(parse(t, "merritt-batch.mmd").Stages, parse(t, "merritt-batch-text.mmd").Stages) {
		got = append(got, d.String())
	}
	want := []string{
		"only the first has Held -> Processing",
		"only the second has Held -> Pending",
		"only the second has Completed -> Deleted",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	same := parse(t, "merritt-job.mmd").Stages
	if d := Compare(same, same); len(d) > 0 {
		t.Errorf("a description differs from itself: %v", d)
	}
	if d := Compare(same, same[:9]); len(d) != 2 || d[0].String() != "only the first has the state COMPLETED" {
		t.Errorf("without its ends: %v", d)
	}
}

// TestCompositeStates checks that one region is replaced by its inside, and that parallel regions are lifecycles of
// their own.
func TestCompositeStates(t *testing.T) {
	d := parse(t, "archive-success.mmd")
	var ways, parts []string
	for _, s := range d.Stages {
		for _, a := range s.Transitions {
			ways = append(ways, string(s.State)+">"+string(a.To))
		}
	}
	got := strings.Join(ways, " ")
	for _, want := range []string{"BackupCollection>CheckIntegrity", "CheckIntegrity>CalculateChecksums",
		"CalculateChecksums>Store", "ActivityArchiving>BackupCollection"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	for _, p := range d.Parts {
		parts = append(parts, p.Name+" from "+string(p.Stages[0].State))
	}
	want := []string{
		"archive-success.ActivityArchiving from OneArchivingTaskCreated",
		"archive-success.ActivityArchiving from AnotherArchivingTaskCreated",
		"archive-success.Store from OneStorageTaskCreated", "archive-success.Store from AnotherStorageTaskCreated",
	}
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	open, err := ParseMermaid("x.mmd", []byte("stateDiagram-v2\n[*] --> A\nstate A {\n[*] --> B\nB --> C : on\n}\nA --> D : stop\nD --> [*]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := open.Stages[0].State; got != "B" || len(open.Stages) != 3 {
		t.Errorf("start %s of %d states, want B of 3", got, len(open.Stages))
	}
	for _, s := range open.Stages[:2] {
		if a := s.Transitions[len(s.Transitions)-1]; a.Event != "stop" || a.To != "D" {
			t.Errorf("%s leaves by %s to %s, want stop to D: nothing inside ends", s.State, a.Event, a.To)
		}
	}
}

// TestMermaidForms reads the forms in which diagrams are written.
func TestMermaidForms(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
	}{
		{"no spaces", "stateDiagram\n[*]-->A\nA-->B:go;", "A[work]-go>B B[work]"},
		{"front matter and comments", "---\ntitle: x\n---\n%% note\nstateDiagram-v2\n%%{init: {}}%%\n direction LR\nA --> B : go", "A[work]-go>B B[work]"},
		{"titles", "stateDiagram-v2\nstate \"First thing\" as f\n[*] --> f\nf --> g",
			"First thing[work]-to g>g g[work]"},
		{"choice", "stateDiagram-v2\n[*] --> A\nstate c <<choice>>\nA --> c : asked\nc --> B : yes\nc --> D\nB --> [*]",
			"A[work]-yes>B-asked>D B[end] D[work]"},
		{"notes", "stateDiagram-v2\n[*] --> A\nA --> B : go\nnote right of B : this is Final\nnote left of A\n not finally\nend note", "A[work]-go>B B[end]"},
		{"guards", "stateDiagram-v2\n[*] --> A\nA --> Failed : fail [3 attempts]\nFailed --> A : retry [operator, owner]", "A[work]-fail>Failed(3 attempts) Failed[end]-retry>A(operator,owner)"},
		{"styles", "stateDiagram-v2\nclassDef x fill:red\n[*] --> A\nA:::x --> B:::x : go\nclass A x",
			"A[work]-go>B B[work]"},
		{"chain", "flowchart TD\nSTART --> Pending --> Run & Held;Run ==> Done",
			"Pending[queue]-to Run>Run-to Held>Held Run[work]-to Done>Done Held[wait] Done[end]"},
		{"texts and shapes", "graph LR\na([Start here]) -- go on --> b[[\"Second\"]]\nb -->|back| a\nb -. stop .-> c((Killed)):::x", "Start here[work]-go on>Second Second[work]-back>Start here-stop>Killed(operator) Killed[end]"},
		{"rhombus", "flowchart LR\nSTART --> A --> q{ok?}\nq -->|yes| Completed\nq -->|no| Failed",
			"A[work]-yes>Completed-no>Failed Completed[end] Failed[end]"},
		{"subgraph", "flowchart LR\nsubgraph one\nA --> B\nend\nstyle A fill:red", "A[work]-to B>B B[work]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Parse("form.mmd", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := outline(d); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// outline writes the states of a document with their kinds and transitions.
func outline(d *Document) string {
	var words []string
	for _, s := range d.Stages {
		word := string(s.State) + "[" + string(s.Kind) + "]"
		for _, a := range s.Transitions {
			word += "-" + string(a.Event) + ">" + string(a.To)
			switch {
			case a.Budget != "":
				word += "(" + a.Budget + ")"
			case a.By != lifecycle.Worker|lifecycle.Timer|lifecycle.Engine:
				word += "(" + a.By.String() + ")"
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestSyntaxProblemsHaveAPosition checks the line and the column of each mistake.
func TestSyntaxProblemsHaveAPosition(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "1:1: the document is empty [syntax]"},
		{"not YAML", "name: [a\nstates: }", "2:1: ',' or ']'"},
		{"no states of a list", "name: a\nstates: 3", "2:9: states is a list"},
		{"unknown key", "name: a\nstates:\n  - state: A\n    kind: end\n    color: red",
			`5:5: unknown key "color" in a state`},
		{"unknown kind", "name: a\nstates:\n  - {state: A, kind: task}",
			`3:22: kind "task" is not one of: queue, work, wait, end`},
		{"no kind", "name: a\nstates:\n  - state: A", "3:5: a state needs a kind"},
		{"no name of a state", "name: a\nstates:\n  - kind: end", "3:5: a state needs a name"},
		{"no name", "states: []", "1:1: a lifecycle needs a name"},
		{"unknown actor", "name: a\nstates:\n- state: A\n  kind: wait\n  arrows:\n  - event: e\n    to: A\n    by: ghost", `8:9: unknown actor "ghost"`},
		{"no target", "name: a\nstates:\n- state: A\n  kind: wait\n  arrows:\n  - event: e\n    by: owner",
			"6:5: a transition needs a state it leads to"},
		{"two targets", "name: a\nstates:\n- state: A\n  kind: wait\n  arrows:\n  - {event: e, to: A, reenter: [A], by: owner}", "6:5: a transition has either to or reenter"},
		{"class without its list", "name: a\nstates:\n- state: A\n  kind: wait\n  arrows:\n  - {event: e, to: A, class: reenter, by: owner}", "6:5: class reenter and the list"},
		{"no event", "name: a\nstates:\n- state: A\n  kind: wait\n  arrows:\n  - {to: A, by: owner}",
			"6:5: a transition needs an event"},
		{"no truth", "name: a\nstates:\n- {state: A, kind: end, restartable: maybe}",
			"3:38: true or false is expected"},
		{"a list for a text", "name: a\nstates:\n- {state: [A], kind: end}", "3:11: a text is expected"},
		{"alias", "name: &x a\nstates: *x", "1:7: a text is expected"},
		{"two documents", "name: a\nstates: []\n---\nname: b", "a second document"},
		{"a text for a lifecycle", "hello", "1:1: a lifecycle is a mapping with name, states"},
		{"diagram without states", "stateDiagram-v2\n", "1:1: the diagram has no states"},
		{"words", "stateDiagram-v2\n  A --> B\n  what is this", `3:3: not understood: "what is this"`},
		{"not closed", "stateDiagram-v2\n[*] --> A\nstate A {\nB --> C", "3:1: the state A is not closed"},
		{"closed twice", "stateDiagram-v2\nA --> B\n}", "3:1: a } that closes nothing"},
		{"divided outside", "stateDiagram-v2\nA --> B\n--", "3:1: -- outside a composite state"},
		{"inside itself", "stateDiagram-v2\nstate A {\nstate A {\n}\n}", "3:1: A is inside itself"},
		{"note without end", "stateDiagram-v2\nA --> B\nnote left of A\nx", "2:1: the note of A has no end"},
		{"note of nothing", "stateDiagram-v2\nA --> B\nnote A", "3:1: a note is"},
		{"state of nothing", "stateDiagram-v2\nstate <<choice>>", "2:1: a state is"},
		{"from start to end", "stateDiagram-v2\n[*] --> [*]", "2:1: a transition from [*] to [*]"},
		{"two starts", "stateDiagram-v2\n[*] --> A\n[*] --> B\nA --> B", "3:1: the lifecycle already starts in A"},
		{"open shape", "graph LR\nA --> B[text", "2:8: the shape of B is not closed"},
		{"no transition", "graph LR\nA B", `2:3: a transition is expected, not "B"`},
		{"no node", "graph LR\nA --> ", "2:6: a node is expected"},
		{"subgraph left open", "graph LR\nsubgraph x\nA --> B", "3:1: a subgraph is not closed"},
		{"end of nothing", "graph LR\nA --> B\nend", "3:1: an end that closes nothing"},
		{"bytes", "graph LR\nA --> \xff", "1:1: the text is not UTF-8"},
		{"long line", "graph LR\nA --> " + strings.Repeat("b", maxLine), "2:1: a line of"},
		{"too long", "graph LR\n" + strings.Repeat("A --> B\n", maxBytes/8), "1:1: the document has"},
		{"too many transitions", "graph LR\n" + strings.Repeat("A --> B\n", maxTransitions+1),
			"1:1: 2 states and 4001 transitions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Parse("bad", []byte(c.text))
			var problems Problems
			if !errors.As(err, &problems) || d != nil {
				t.Fatalf("got %v, %v; want problems only", d, err)
			}
			if got := problems.Error(); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := Lint("bad", []byte(c.text)); len(got) != len(problems) || got[0].Rule != Syntax {
				t.Errorf("Lint gives %v", got)
			}
		})
	}
}

// TestGarbageIsReportedInBounds checks that the number of reported problems is limited.
func TestGarbageIsReportedInBounds(t *testing.T) {
	if got := Lint("x", []byte("stateDiagram-v2\n"+strings.Repeat("? ?\n", 5000))); len(got) != maxProblems {
		t.Errorf("%d problems, want %d", len(got), maxProblems)
	}
}
