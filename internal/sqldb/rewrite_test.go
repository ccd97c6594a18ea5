package sqldb

import (
	"fmt"
	"slices"
	"testing"
)

func TestRewrite(t *testing.T) {
	for _, c := range []struct {
		query, text string
		args        []int
	}{
		{"SELECT 1", "SELECT 1", nil},
		{"a = ? AND b = ?", "a = $1 AND b = $2", []int{0, 1}},
		{"a = ?2 AND b = ?1 AND c = ?2", "a = $1 AND b = $2 AND c = $1", []int{1, 0}},
		{"a = ?10 AND b = ?", "a = $1 AND b = $2", []int{9, 10}},
		{"a = '?' AND \"b?\" = ?", "a = '?' AND \"b?\" = $1", []int{0}},
		{"a = 'it''s ?' AND b = ?", "a = 'it''s ?' AND b = $1", []int{0}},
		{"a -- it's ?\n = ? /* ' ? */ = ?", "a -- it's ?\n = $1 /* ' ? */ = $2", []int{0, 1}},
		{"a = ? -- ?", "a = $1 -- ?", []int{0}},
	} {
		if s := rewrite(c.query); s.text != c.text || !slices.Equal(s.args, c.args) {
			t.Errorf("%s: got %s of %v, want %s of %v", c.query, s.text, s.args, c.text, c.args)
		}
	}
}

// TestStatementsAreBounded: lists that are asked for in many forms do not fill the memory.
func TestStatementsAreBounded(t *testing.T) {
	var s statements
	for n := range 2 * mostStatements {
		if got := s.of(fmt.Sprintf("SELECT %d, ?", n)).text; got != fmt.Sprintf("SELECT %d, $1", n) {
			t.Fatalf("got %s", got)
		}
	}
	if len(s.all) > mostStatements {
		t.Errorf("%d statements are kept", len(s.all))
	}
}
