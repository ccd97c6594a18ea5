package tes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/job"
)

// checkURL judges where an input is to come from, without looking.
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

// checkTarget judges where an output is to go. None: it is only shown.
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

// Fill brings the files of a plan to the job that is being made. Errors: Invalid for what a client can mend, Unavailable for a server that does not answer, and those of
// [compute.Upload.File].
func (a *Adapter) Fill(ctx context.Context, u *compute.Upload, p *Plan) error {
	if err := u.File(compute.Script, strings.NewReader(p.Script)); err != nil {
		return err
	}
	for i := range p.inputs {
		in, name := &p.inputs[i], fmt.Sprintf("%s%d", inputName, i)
		var err error
		from, isLocal := local(in.URL)
		switch {
		case in.Content != "":
			err = u.File(name, strings.NewReader(in.Content))
		case isLocal:
			err = a.copy(u, name, from)
		default:
			err = a.fetch(ctx, u, name, in.URL)
		}
		if err != nil {
			return fmt.Errorf("inputs[%d]: %w", i, err)
		}
	}
	return nil
}

// copy takes a file of this machine. Links are followed as long as they stay below the root; nothing but a regular file is read, and a FIFO is not waited for.
func (a *Adapter) copy(u *compute.Upload, name, from string) error {
	dir, rest, err := rooted(a.options.Roots, from)
	if err != nil {
		return invalid("%w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return job.Errorf(job.Unavailable, "tes", "", "a directory for inputs is not there: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(rest, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return invalid("%.100q cannot be read: %w", from, bare(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return invalid("%.100q is no regular file", from)
	}
	return u.File(name, f)
}

// bare gives an error of the file system without its path.
func bare(err error) error {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// fetch downloads a file to the scratch directory, and hands it over.
func (a *Adapter) fetch(ctx context.Context, u *compute.Upload, name, from string) (err error) {
	dir := strings.ToLower(rand.Text())
	if err := a.scratch.Mkdir(dir, 0o700); err != nil {
		return job.Errorf(job.Unavailable, "tes", "", "no place for an input: %w", bare(err))
	}
	defer func() { err = errors.Join(err, a.scratch.RemoveAll(dir)) }()
	at := path.Join(dir, "file")
	if _, err := a.client.Download(ctx, from, a.scratch, at, fetch.Want{Size: fetch.UnknownSize}); err != nil {
		var e *fetch.Error
		if ctx.Err() != nil || errors.As(err, &e) && (e.Temporary() || e.Kind == fetch.Storage) {
			return job.Errorf(job.Unavailable, "tes", "", "%w", err)
		}
		return invalid("%w", err)
	}
	return u.Adopt(name, filepath.Join(a.options.Dir, filepath.FromSlash(at)))
}
