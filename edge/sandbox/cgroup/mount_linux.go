package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hierarchy is one mounted hierarchy: where our groups go in it, and what it controls.
type hierarchy struct {
	top         string   // the mount point
	dir         string   // the group we run in; our groups are made below it
	v2          bool     // the unified hierarchy
	controllers []string // of version 1: those mounted here
}

func (p hierarchy) has(controller string) bool { return slices.Contains(p.controllers, controller) }

// kernel is what the file system does of itself, so that tests can play it in a plain directory.
type kernel struct {
	self  string // /proc/self
	pid   int
	mkdir func(dir string) error
	rmdir func(dir string) error
	write func(file, text string) error
}

// hierarchies lists the mounted hierarchies with the group of this process in each, from mountinfo and cgroup below
// k.self (proc_pid_mountinfo(5), cgroups(7)).
func (k kernel) hierarchies() ([]hierarchy, error) {
	mounts, err := os.ReadFile(filepath.Join(k.self, "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("cgroup: read the mounts: %w", err)
	}
	own, err := os.ReadFile(filepath.Join(k.self, "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("cgroup: read our own groups: %w", err)
	}
	paths := ownPaths(string(own))
	var found []hierarchy
	for line := range strings.Lines(string(mounts)) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		p := hierarchy{top: unescape(left[4]), v2: right[0] == "cgroup2"}
		switch right[0] {
		case "cgroup2":
			p.dir = below(p.top, unescape(left[3]), paths[""])
		case "cgroup":
			for _, option := range strings.Split(right[2], ",") {
				if path, ok := paths[option]; ok && option != "" {
					p.controllers = append(p.controllers, option)
					p.dir = below(p.top, unescape(left[3]), path)
				}
			}
		}
		if p.dir != "" && (p.v2 || len(p.controllers) > 0) && !slices.ContainsFunc(found, p.same) {
			found = append(found, p)
		}
	}
	return found, nil
}

// same reports a hierarchy that is mounted twice.
func (p hierarchy) same(q hierarchy) bool {
	return p.v2 == q.v2 && slices.Equal(p.controllers, q.controllers)
}

// ownPaths gives the path of our group for each controller of version 1, and for "" that of version 2.
func ownPaths(text string) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(text) {
		if fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(fields) == 3 {
			for _, c := range strings.Split(fields[1], ",") {
				paths[c] = fields[2]
			}
		}
	}
	return paths
}

// below finds the directory of a group. In a container the mount may show only a part (root) of the hierarchy while the
// path is relative to its top; a path outside of what is mounted falls back to the mount point.
func below(top, root, path string) string {
	if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
		if dir := filepath.Join(top, rel); isDir(dir) {
			return dir
		}
	}
	return top
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
