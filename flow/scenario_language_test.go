package flow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The header of testdata/scenarios.yaml defines the language of scenarios. The types below are its grammar: an unknown
// word fails its scenario, so that no part of a scenario is skipped.

// index is a file of scenarios.
type book struct {
	Tables     map[string]table `json:"transition_tables"`
	Scenarios  []entry          `json:"scenarios"`
	Jobs       []entry          `json:"job_scenarios"`
	Conductors []entry          `json:"conductor_scenarios"`
}

// entry is a scenario that is parsed when it is played: a mistake in one scenario does not affect the others.
type entry struct {
	id   string
	text json.RawMessage
}

func (e *entry) UnmarshalJSON(text []byte) error {
	var head struct {
		ID string `json:"id"`
	}
	e.text = bytes.Clone(text)
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	e.id = head.ID
	return nil
}

// table lists the pairs of states of one lifecycle.
type table struct {
	Allowed    [][2]string `json:"allowed"`
	Ignored    [][2]string `json:"ignored"`
	Forbidden  [][2]string `json:"forbidden"`
	NotAllowed [][2]string `json:"not_allowed"`
}

type scenario struct {
	ID      string         `json:"id"`
	Test    string         `json:"test"`
	Note    string         `json:"note"`
	Since   any            `json:"since"`
	Engines []string       `json:"engines"`
	Workers int            `json:"workers"`
	Options optionWords    `json:"options"`
	Store   map[string]any `json:"store"`
	Flow    *itemWords     `json:"flow"`
	Build   *checkWords    `json:"build"`
	Steps   []step         `json:"steps"`
	Defect  bool           `json:"defect"`
	Peer    string         `json:"peer"`
	Ours    string         `json:"ours"`
}

type optionWords struct {
	DeferReverts bool `json:"defer_reverts"`
	NeverResolve bool `json:"never_resolve"`
}

// itemWords is a flow, a task, or a retry that stands where none may.
type itemWords struct {
	Linear           *string     `json:"linear"`
	Unordered        *string     `json:"unordered"`
	Graph            *string     `json:"graph"`
	Retry            *retryWords `json:"retry"`
	Of               []itemWords `json:"of"`
	Links            []linkWords `json:"links"`
	AutoLink         *bool       `json:"auto_link"`
	AutoLinkExisting *bool       `json:"auto_link_existing"`
	AddedSeparately  bool        `json:"added_separately"`
	Target           string      `json:"target"`

	RetryAtom *retryWords `json:"retry_atom"`

	Task           *string        `json:"task"`
	Do             *doWords       `json:"do"`
	Undo           *doWords       `json:"undo"`
	Requires       []string       `json:"requires"`
	Provides       *provideWords  `json:"provides"`
	Rebind         *rebindWords   `json:"rebind"`
	Inject         map[string]any `json:"inject"`
	Optional       map[string]any `json:"optional"`
	Priority       int            `json:"priority"`
	RevertRequires []string       `json:"revert_requires"`
}

type linkWords struct {
	From    string        `json:"from"`
	To      string        `json:"to"`
	Decider *deciderWords `json:"decider"`
	Depth   string        `json:"depth"`
}

// deciderWords is true, false or a map.
type deciderWords struct {
	answer *bool
	deciderMap
}

type deciderMap struct {
	Gate   string  `json:"gate"`
	Sum    *number `json:"history_sum_equals"`
	Failed string  `json:"fail"`
}

func (d *deciderWords) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return strict(text, &d.answer)
	}
	return strict(text, &d.deciderMap)
}

// doWords describes an execution or a revert.
type doWords struct {
	attempt bool // the string "attempt": as Times
	doMap
}

type doMap struct {
	Args             []string   `json:"args"`
	Return           any        `json:"return"`
	Fail             *string    `json:"fail"`
	Error            string     `json:"error"`
	FailUnlessEqual  []string   `json:"fail_unless_equal"`
	Sum              []string   `json:"sum"`
	Multiply         []string   `json:"multiply"`
	AddOne           string     `json:"add_one"`
	ProgressArg      string     `json:"progress_arg"`
	Sleep            *float64   `json:"sleep"`
	Slow             float64    `json:"slow"` // seconds that pass before all else that it does
	FailIfGate       string     `json:"fail_if_gate"`
	Message          string     `json:"message"`
	WaitFor          *waitWords `json:"wait_for"`
	FailUntilElapsed *float64   `json:"fail_until_elapsed"`
	MustNotRun       bool       `json:"must_not_run"`
	ResultPlusOne    bool       `json:"result_plus_one"`
	Attempt          bool       `json:"attempt"` // of retries
}

type waitWords struct {
	Task   string   `json:"task"`
	States []string `json:"states"`
}

func (d *doWords) UnmarshalJSON(text []byte) error {
	if text[0] == '{' {
		err := strict(text, &d.doMap)
		d.attempt = d.Attempt
		return err
	}
	if d.attempt = string(text) == `"attempt"`; !d.attempt {
		return fmt.Errorf("unknown action %s", text)
	}
	return nil
}

// provideWords is a name, a list, or {keys: list}.
type provideWords struct {
	name  string
	names []string
	keys  []string
}

func (p *provideWords) UnmarshalJSON(text []byte) error {
	switch text[0] {
	case '"':
		return json.Unmarshal(text, &p.name)
	case '[':
		return json.Unmarshal(text, &p.names)
	}
	var keyed struct {
		Keys *[]string `json:"keys"`
	}
	if err := strict(text, &keyed); err != nil || keyed.Keys == nil {
		return fmt.Errorf("provides is no name, no list and no {keys}: %s (%v)", text, err)
	}
	p.keys = *keyed.Keys
	return nil
}

// rebindWords is a map, or a list by position.
type rebindWords struct {
	named map[string]string
	list  []string
}

func (r *rebindWords) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, &r.list)
	}
	return json.Unmarshal(text, &r.named)
}

type retryWords struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Provides string `json:"provides"`
	Attempts *int   `json:"attempts"`
	Values   []any  `json:"values"`
	// the values are a set: each once, in an order that the scenario does not report
	AsSet     bool           `json:"as_set"`
	RevertAll bool           `json:"revert_all"`
	Do        *doWords       `json:"do"`
	Undo      *doWords       `json:"undo"`
	OnFailure *decisionWords `json:"on_failure"`
	Requires  []string       `json:"requires"`
	Rebind    *rebindWords   `json:"rebind"`
	Inject    map[string]any `json:"inject"`
	Optional  map[string]any `json:"optional"`
	Priority  int            `json:"priority"`
}

// decisionWords is a decision, or one that depends on the number of attempts.
type decisionWords struct {
	always string
	decisionMap
}

type decisionMap struct {
	Until int     `json:"retry_until"`
	Then  string  `json:"then"`
	Delay float64 `json:"delay"`
	Fail  string  `json:"fail"`
}

func (d *decisionWords) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, &d.always)
	}
	return strict(text, &d.decisionMap)
}

// step is one of its fields.
type step struct {
	Preset        []preset        `json:"preset"`
	Run           *checkWords     `json:"run"`
	NewEngine     *newEngineWords `json:"new_engine"`
	Reset         *checkWords     `json:"reset"`
	Suspend       *checkWords     `json:"suspend"`
	Gate          map[string]bool `json:"gate"`
	Inject        map[string]any  `json:"inject"`
	ClearInjected *checkWords     `json:"clear_injected"`
	Expect        *checkWords     `json:"expect"`
}

type newEngineWords struct {
	Flow *itemWords `json:"flow"`
}

// preset is one of its fields.
type preset struct {
	FlowState        string          `json:"flow_state"`
	State            *presetState    `json:"state"`
	Intention        *presetState    `json:"intention"`
	Save             *presetSave     `json:"save"`
	SaveRetryFailure *presetFailure  `json:"save_retry_failure"`
	Progress         *presetProgress `json:"progress"`
}

type presetState struct {
	Atom string `json:"atom"`
	To   string `json:"to"`
}

type presetSave struct {
	Atom    string  `json:"atom"`
	Result  any     `json:"result"`
	Failure *string `json:"failure"`
	State   string  `json:"state"`
}

type presetFailure struct {
	Retry   string `json:"retry"`
	Atom    string `json:"atom"`
	Failure string `json:"failure"`
}

type presetProgress struct {
	Atom string  `json:"atom"`
	To   float64 `json:"to"`
}

// checkWords are the other actions of a step and its expectations.
type checkWords struct {
	Capture      string        `json:"capture"`
	SkipTasks    []string      `json:"skip_tasks"` // tasks whose events are not captured
	SuspendOn    *suspendWords `json:"suspend_on"`
	SuspendAfter *machineWords `json:"suspend_after_machine_state"`
	Machine      *[]string     `json:"machine_states"`
	Raises       *raiseWords   `json:"raises"`
	comparison
	Also     []comparison `json:"also"`
	Segments []comparison `json:"segments"`
	Never    []string     `json:"never"`

	FlowState        *string                     `json:"flow_state"`
	Values           *map[string]any             `json:"values"`
	ValuesInclude    map[string]any              `json:"values_include"`
	AtomStates       map[string]string           `json:"atom_states"`
	AtomIntentions   map[string]string           `json:"atom_intentions"`
	AtomResults      map[string]any              `json:"atom_results"`
	RevertResults    map[string]any              `json:"revert_results"`
	ExecuteFailures  *failureWords               `json:"execute_failures"`
	RevertFailures   *failureWords               `json:"revert_failures"`
	ExecutedWith     map[string][]map[string]any `json:"executed_with"`
	RevertedWith     map[string][]map[string]any `json:"reverted_with"`
	DeciderHistories *[][]string                 `json:"decider_histories"`
	Progress         map[string][]number         `json:"progress"`

	Requires *[]string   `json:"requires"` // of build
	Provides *[]string   `json:"provides"`
	Links    *[][]string `json:"links"`
	Items    *[]string   `json:"items"`
}

// comparison is a list of events, or their number, and how it is compared.
type comparison struct {
	N       *int            `json:"n"` // of segments: how many events
	Compare string          `json:"compare"`
	AsSet   bool            `json:"as_set"` // as compare: set
	Events  json.RawMessage `json:"events"`
}

type suspendWords struct {
	Task  string `json:"task"`
	Retry string `json:"retry"`
	Atom  string `json:"atom"`
	Flow  string `json:"flow"`
	State string `json:"state"`
}

type machineWords struct {
	State string `json:"state"`
	Nth   int    `json:"nth"`
}

type raiseWords struct {
	Error string `json:"error"`
	Match string `json:"match"`
}

// failureWords is a map from atoms to failures, or a list of atoms.
type failureWords struct {
	texts map[string]string
	atoms []string
}

func (f *failureWords) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, &f.atoms)
	}
	return json.Unmarshal(text, &f.texts)
}

// number is an integer or not.
type number float64

// strict reads JSON of which every word must be known.
func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	d.UseNumber()
	return d.Decode(into)
}

// settled makes plain numbers of json.Numbers, everywhere in a value.
func settled(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = settled(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = settled(v[k])
		}
	}
	return v
}

// read makes a scenario of an entry.
func (e entry) read() (*scenario, error) {
	s := &scenario{}
	if err := strict(e.text, s); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", e.id, err)
	}
	for i, st := range s.Steps {
		if n := st.words(); n != 1 {
			return nil, fmt.Errorf("scenario %s: step %d has %d actions, want one", e.id, i, n)
		}
	}
	return s, nil
}

// words counts the actions of a step.
func (s *step) words() int {
	n := 0
	for _, said := range []bool{s.Preset != nil, s.Run != nil, s.NewEngine != nil, s.Reset != nil, s.Suspend != nil,
		s.Gate != nil, s.Inject != nil,
		s.ClearInjected != nil, s.Expect != nil} {
		if said {
			n++
		}
	}
	return n
}

// standard is the file that is played when none is named.
const standard = "testdata/scenarios.yaml"

// file names the file that is played: a path from here, or from the root of the module.
func file() string {
	other := os.Getenv("STAGEPOST_SCENARIOS")
	if other == "" {
		return standard
	}
	if root := filepath.Join("..", other); !filepath.IsAbs(other) {
		if _, err := os.Stat(other); err != nil {
			return root
		}
	}
	return other
}

// open reads a YAML file by way of JSON, in which words can be checked.
func open(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	asJSON, err := json.Marshal(all)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := strict(asJSON, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// scenarios reads the file of scenarios. The scenarios of more.yaml are added to the standard file.
func scenarios(t *testing.T) *book {
	t.Helper()
	b := &book{}
	open(t, file(), b)
	if file() == standard {
		more := &book{}
		open(t, "testdata/more.yaml", more)
		b.Scenarios = append(b.Scenarios, more.Scenarios...)
	}
	return b
}

// TestUnknownWordsAreRefused: a scenario with an unknown word fails.
func TestUnknownWordsAreRefused(t *testing.T) {
	for _, text := range []string{
		`{"id": "x", "steps": [{"runs": {}}]}`,
		`{"id": "x", "steps": [{"run": {"evnts": []}}]}`,
		`{"id": "x", "steps": [{"run": {}, "reset": {}}]}`,
		`{"id": "x", "steps": [{}]}`,
		`{"id": "x", "flow": {"task": "a", "do": {"returns": 5}}}`,
		`{"id": "x", "flow": {"task": "a", "do": "nothing"}}`,
		`{"id": "x", "flow": {"graph": "g", "links": [{"from": "a", "to": "b", "decider": {"maybe": 1}}]}}`,
		`{"id": "x", "flow": {"linear": "f", "retry": {"kind": "Custom", "on_failure": {"until": 3}}}}`,
		`{"id": "x", "flow": {"task": "a", "provides": {"names": ["a"]}}}`,
		`{"id": "x", "options": {"speed": 9}}`,
		`{"id": "x", "steps": [{"preset": [{"states": {}}]}]}`,
	} {
		if s, err := (entry{"x", json.RawMessage(text)}).read(); err == nil {
			t.Errorf("%s was read as %+v", text, s)
		}
	}
	if _, err := (entry{"x", json.RawMessage(`{"id": "x", "flow": {"task": "a"}, "steps": [{"run": {}}]}`)}).read(); err != nil {
		t.Errorf("the control: %v", err)
	}
	if !strings.HasSuffix(standard, ".yaml") {
		t.Error("the standard file has moved")
	}
}
