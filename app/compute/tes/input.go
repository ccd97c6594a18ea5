package tes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// checkURL checks where an input is to come from, without a request.
func (a *Adapter) checkURL(text string) error {
	if name, ok := local(text); ok {
		_, _, err := rooted(a.options.Roots, name)
		return err
	}
	switch scheme, _, _ := strings.Cut(text, ":"); strings.ToLower(scheme) {
	case "http", "https":
		return a.client.Check(text)
	default:
		return fmt.Errorf("%.100q: inputs come by http, https or file, or stand in content", text)
	}
}

// checkTarget checks where an output is to go. None: it is only shown.
func (a *Adapter) checkTarget(text string) error {
	if text == "" {
		return nil
	}
	name, ok := local(text)
	err := fmt.Errorf("%.100q is no file://", text)
	if ok {
		_, _, err = rooted(a.options.Outputs, name)
	}
	if err != nil {
		err = fmt.Errorf("%w; with an empty url the log of the output has the URL at which it can be downloaded", err)
	}
	return err
}

// local gives the path of a URL that names a file of this machine.
func local(text string) (name string, ok bool) {
	if strings.HasPrefix(text, "/") {
		return text, true
	}
	u, err := url.Parse(text)
	if err != nil || !strings.EqualFold(u.Scheme, "file") {
		return "", false
	}
	if u.Host != "" && u.Host != "localhost" || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", true // no path here: rooted refuses it
	}
	return u.Path, true
}

// rooted finds the one of some roots that a file lies below, and its name there.
func rooted(roots []string, name string) (root, rest string, err error) {
	if strings.HasPrefix(name, "/") && !strings.ContainsRune(name, 0) {
		name = filepath.Clean(name)
		for _, root := range roots {
			if rest, ok := strings.CutPrefix(name, root+"/"); ok {
				return root, rest, nil
			}
		}
	}
	if len(roots) == 0 {
		return "", "", fmt.Errorf("%.100q: this server allows no directory of its own machine for that", name)
	}
	return "", "", fmt.Errorf("%.100q lies below none of the directories that this server allows for that", name)
}

// Fill brings to the job that is being made what stands in its task. Inputs behind URLs are fetched when it exists
// ([Adapter.Fetch]); of files of this machine it is checked whether they can be read. Errors: Invalid for what a client
// can mend, Unavailable, and those of [compute.Upload.File].
func (a *Adapter) Fill(u *compute.Upload, p *Plan) error {
	if err := u.File(compute.Script, strings.NewReader(p.Script)); err != nil {
		return err
	}
	for i := range p.inputs {
		in := &p.inputs[i]
		var err error
		from, isLocal := local(in.URL)
		switch {
		case in.Content != "":
			err = u.File(inputOf(i), strings.NewReader(in.Content))
		case isLocal:
			err = a.checkFile(from)
		}
		if err != nil {
			return fmt.Errorf("inputs[%d]: %w", i, err)
		}
	}
	return nil
}

// inputOf gives the name under which a job has an input of its task.
func inputOf(i int) string { return fmt.Sprintf("%s%d", inputName, i) }

// remote lists the inputs that are fetched.
func remote(inputs []Input) (all []compute.RemoteFile) {
	for i := range inputs {
		if inputs[i].Content == "" {
			all = append(all, compute.RemoteFile{Name: inputOf(i), URL: inputs[i].URL})
		}
	}
	return all
}

// Host is part of [compute.Source].
func (a *Adapter) Host(text string) string {
	if _, ok := local(text); ok {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// Fetch is part of [compute.Source].
func (a *Adapter) Fetch(ctx context.Context, f compute.RemoteFile, to compute.Arrival) error {
	if from, ok := local(f.URL); ok {
		return a.copy(ctx, from, to)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var full error
	want := fetch.Want{Size: fetch.UnknownSize, Digest: f.SHA256, Scratch: to.Scratch,
		Progress: func(have, size int64) {
			if full == nil {
				if full = to.Progress(have, size); full != nil {
					stop(full)
				}
			}
		}}
	if f.SHA256 != "" {
		want.Algorithm = "sha256"
	}
	_, err := a.client.Download(ctx, f.URL, to.Root, to.Name, want)
	if full != nil {
		if err == nil { // the last piece was here before the download saw that it was stopped
			return errors.Join(full, to.Root.Remove(to.Name))
		}
		return full
	}
	return err
}

// checkFile reports whether a file of this machine can be taken.
func (a *Adapter) checkFile(from string) error {
	f, _, err := a.open(from)
	if err != nil {
		return err
	}
	return f.Close()
}

// open opens a file of this machine. Links are followed as long as they stay below the root; nothing but a regular file
// is opened, and a FIFO is not waited for.
func (a *Adapter) open(from string) (f *os.File, size int64, err error) {
	dir, rest, err := rooted(a.options.Roots, from)
	if err != nil {
		return nil, 0, invalid("%w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, job.Errorf(job.Unavailable, "tes", "", "a directory for inputs is not there: %w", err)
	}
	defer root.Close()
	if f, err = root.OpenFile(rest, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil {
		return nil, 0, invalid("%.100q cannot be read: %w", from, bare(err))
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0, errors.Join(invalid("%.100q is no regular file", from), f.Close())
	}
	return f, info.Size(), nil
}

// copy copies a file of this machine: under another name first, so that a part of it is never taken for the whole.
func (a *Adapter) copy(ctx context.Context, from string, to compute.Arrival) error {
	src, size, err := a.open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	part := path.Join(to.Scratch, "copy")
	return durable.File{Root: to.Root, Name: to.Name, Temporary: part}.Write(func(f *os.File) error {
		_, err := io.Copy(f, &watched{ctx: ctx, r: src, size: size, progress: to.Progress})
		return err
	})
}

// watched is a file whose reader is asked after each piece whether it may go on.
type watched struct {
	ctx        context.Context
	r          io.Reader
	have, size int64
	progress   func(have, size int64) error
}

// Read is part of io.Reader.
func (w *watched) Read(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := w.r.Read(b)
	w.have += int64(n)
	if full := w.progress(w.have, max(w.have, w.size)); full != nil {
		return n, full
	}
	return n, err
}

// bare gives an error of the file system without its path.
func bare(err error) error {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
