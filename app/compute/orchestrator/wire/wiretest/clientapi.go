package wiretest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// submit stores a form and sends all of it back as numbers.
func (c *FakeClient) submit(w http.ResponseWriter, r *http.Request) {
	parts, boundary, err := readForm(r)
	if !boundary {
		reply(w, 400, isText, noBoundary)
		return
	}
	files := 0
	for _, p := range parts {
		if p.isFile {
			files++
		}
	}
	if err != nil || files == 0 {
		reply(w, 400, isJSON, nothing)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	p := &payload{id: c.last, status: "Prepared", loc: filepath.Join(c.data, fmt.Sprint(c.last))}
	if _, err := store(p.loc, parts); err != nil {
		reply(w, 500, isJSON, nothing)
		return
	}
	sub := Submission{ID: p.id, Files: map[string]string{}, Header: r.Header.Clone(), Length: r.ContentLength}
	for _, one := range parts {
		if one.isFile {
			sub.Fields = append(sub.Fields, one.field)
			sub.Names = append(sub.Names, one.file)
			sub.Files[base(one.file)] = string(one.data)
		}
	}
	c.payloads[p.id] = p
	c.subs = append(c.subs, sub)
	c.changed.Broadcast()
	reply(w, 200, isJSON, p.json(echo(sub.Files)))
}

// echo is the "input" that makes the original's answer four times as large as the upload.
func echo(files map[string]string) string {
	var b strings.Builder
	for name, data := range files {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(name) + ":[")
		for i := range len(data) {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strconv.Itoa(int(data[i])))
		}
		b.WriteByte(']')
	}
	return b.String()
}

// find answers for an id that is none or unknown.
func (c *FakeClient) find(w http.ResponseWriter, r *http.Request) (payload, bool) {
	text := r.PathValue("id")
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		reply(w, 400, isText, "Invalid URL: Cannot parse `"+text+"` to a `u32`")
		return payload{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.payloads[uint32(id)]
	if p == nil {
		reply(w, 404, isJSON, nothing)
		return payload{}, false
	}
	return *p, true
}

func (c *FakeClient) retrieve(w http.ResponseWriter, r *http.Request) {
	p, ok := c.find(w, r)
	if !ok {
		return
	}
	if p.status != "Completed" {
		reply(w, 200, isJSON, p.json(""))
		return
	}
	c.packing.Lock()
	defer c.packing.Unlock()
	kept := filepath.Join(p.loc, "output.zip")
	if data, err := os.ReadFile(kept); err == nil {
		reply(w, 200, isZIP, string(data)) // whichever process made it
		return
	}
	c.mu.Lock()
	fault := c.leftover
	c.leftover = 0
	c.mu.Unlock()
	data, err := pack(p.loc, true, fault)
	os.WriteFile(kept, data, 0o644)
	if err != nil {
		reply(w, 500, isJSON, nothing)
		return
	}
	reply(w, 200, isZIP, string(data))
}

func (c *FakeClient) partial(w http.ResponseWriter, r *http.Request) {
	p, ok := c.find(w, r)
	if !ok {
		return
	}
	data, err := pack(p.loc, false, 0)
	if err != nil {
		reply(w, 500, isJSON, nothing)
		return
	}
	reply(w, 200, isZIP, string(data))
}

// kill sends SIGTERM to bash alone. It inspects no state.
func (c *FakeClient) kill(w http.ResponseWriter, r *http.Request) {
	p, ok := c.find(w, r)
	if !ok {
		return
	}
	c.mu.Lock()
	if now := c.payloads[p.id]; now != nil {
		now.killed = true // before its script can end: what it ends with then is no failure
	}
	c.mu.Unlock()
	if p.pid > 0 {
		syscall.Kill(p.pid, syscall.SIGTERM)
	}
	reply(w, 200, "", "")
}
