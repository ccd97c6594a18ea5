package flowfile

import (
	"strings"
	"testing"
)

// TestUnknownVariable: a variable in run or revert that nothing sets is warned of; the environment of a command is
// known.
func TestUnknownVariable(t *testing.T) {
	const revert = "echo x\n    revert: |\n      "
	for _, c := range []struct{ script, want string }{
		{`echo "$thing" "$thnig"`, "a uses $thnig, which nothing sets; is it $thing?"},
		{`echo "$thing"; echo "$other"`, "a uses $other, which nothing sets: add it to requires, or give it a value in the text"},
		{revert + `rm "$thing" "$resutl"`, "a uses $resutl, which nothing sets; is it $result?"},
		{revert + `rm "$thing" "$result" "$made" "$STAGEPOST_FAILURE"`, ""},
		{`echo "$thing" "$STAGEPOST_KEY" "$STAGEPOST_TASK" "$PATH" "$HOME" "$PWD" "$1" "$#" "$?" "$$"`, ""},
		{`echo "$thing" "$STAGEPOST_KYE"`, "a uses $STAGEPOST_KYE, which nothing sets; is it $STAGEPOST_KEY?"},
		{`echo "$thing" "${x:-1}" "${y-2}" "${z:=3}" "${u:+4}"`, ""},
		{`echo "${thing#x}" "${x#y}"`, "a uses $x, which nothing sets: add it to requires, or give it a value in the text"},
		{`x="$thing"; echo "$x"`, ""},
		{`for x in "$thing"; do echo "$x"; done`, ""},
		{`echo "$thing" | while IFS= read -r one two; do echo "$one" "$two"; done`, ""},
		{`while getopts ab opt; do echo "$opt" "$thing" "$OPTARG"; done`, ""},
		{`f() { local one two=2; echo "$one" "$two" "$thing"; }; f`, ""},
		{`. /etc/os-release; echo "$NAME" "$thing"`, ""},
		{`awk '{print $x}' "$thing"`, ""},
		{`echo "\$x $thing" # $y`, ""},
	} {
		text := "flow: f\ninputs: {thing: 1}\nlinear:\n  - task: a\n    requires: [thing]\n    provides: made\n    run: |\n      " + c.script + "\n" +
			"  - {task: b, requires: made, run: 'echo \"$made\"'}\n"
		if strings.HasPrefix(c.script, revert) {
			text = strings.Replace(text, "    run: |\n      echo x\n", "    run: echo \"$thing\"\n", 1)
		}
		var got []string
		for _, f := range Lint([]byte(text)) {
			if f.Severity != IsNote {
				got = append(got, f.Text)
			}
		}
		if all := strings.Join(got, "; "); all != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.script, all, c.want)
		}
	}
}

// TestUnnamedSleeps: sleeps of one length have names of their own.
func TestUnnamedSleeps(t *testing.T) {
	f, err := Parse([]byte("flow: f\nlinear:\n  - sleep: 1s\n  - sleep: 1s\n  - sleep: 2s\n  - sleep: 1s\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range f.root.items {
		names = append(names, i.task.name)
	}
	if got := strings.Join(names, " "); got != "sleep-1s sleep-1s-2 sleep-2s sleep-1s-3" {
		t.Error(got)
	}
}
