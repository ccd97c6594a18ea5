package slurm

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/internal/durable"
)

// check refuses what can never run here.
func (s *Slurm) check(p *compute.Parcel) error {
	names := map[string]bool{}
	for _, f := range p.Files {
		if f.Name == "" || f.Name == "." || f.Name == ".." || strings.ContainsAny(f.Name, "/\x00") ||
			len(f.Name) > 255 {
			return &compute.Refusal{Reason: fmt.Sprintf("%q is no name for a file", printable(f.Name, 100))}
		}
		if names[f.Name] {
			return &compute.Refusal{Reason: fmt.Sprintf("two files are named %q", printable(f.Name, 100))}
		}
		names[f.Name] = true
	}
	if !names[compute.Script] {
		return &compute.Refusal{Reason: "there is no " + compute.Script + " among its files"}
	}
	if len(s.o.Services) > 0 && !slices.Contains(s.o.Services, p.Service) {
		return &compute.Refusal{Reason: fmt.Sprintf("%s does not serve %q", s.o.Name, printable(p.Service, 100)),
			Here: true}
	}
	if _, err := s.environ(p); err != nil {
		return &compute.Refusal{Reason: err.Error()}
	}
	if err := p.Limits.Within(compute.Limits{}); err != nil {
		return &compute.Refusal{Reason: err.Error()}
	}
	return nil
}

// stage writes a payload's directory and puts it under its name. fs.ErrExist: another server was faster.
func (s *Slurm) stage(ctx context.Context, dir string, p *compute.Parcel) (err error) {
	var raw [8]byte
	_, _ = rand.Read(raw[:])
	place := path.Join(stageDir, dir+"-"+hex.EncodeToString(raw[:]))
	if err := s.root.MkdirAll(path.Join(place, workDir), 0o700); err != nil {
		return err
	}
	root, err := s.root.OpenRoot(place)
	if err != nil {
		return err
	}
	defer func() {
		root.Close()
		if err != nil {
			err = errors.Join(err, s.root.RemoveAll(place))
		}
	}()
	for _, f := range p.Files {
		if err := bring(ctx, root, path.Join(workDir, f.Name), f, p.Open); err != nil {
			return fmt.Errorf("file %q: %w", printable(f.Name, 100), err)
		}
	}
	env, err := s.environ(p)
	if err != nil {
		return err
	}
	t := ticket{
		Job: p.Job, Attempt: p.Attempt, Secret: digest(p.Secret), Service: p.Service, Owner: p.Owner, Files: p.Files,
		Inputs: p.Inputs, Limits: p.Limits,
		Sandbox: s.sandbox(), Received: s.now().UTC(),
	}
	err = errors.Join(durable.SyncIn(root, workDir), writeFile(root, envFile, []byte(env)),
		writeFile(root, batchFile, []byte(s.wrapper(dir, p.Limits))), writeJSON(root, ticketFile, t))
	if err != nil {
		return err
	}
	s.step("staged")
	if err := s.root.Rename(place, dir); err != nil { // of a directory, it fails where there is one that is not empty
		if _, there := s.root.Lstat(dir); there == nil {
			err = fmt.Errorf("%w: %w", fs.ErrExist, err)
		}
		return err
	}
	return durable.SyncIn(s.root, ".")
}

// bring copies a file of the parcel. It must match the parcel.
func bring(ctx context.Context, root *os.Root, name string, f compute.File,
	open func(string) (io.ReadSeekCloser, error)) (err error) {
	in, err := open(f.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sum := &summed{ctx: ctx, r: io.LimitReader(in, f.Size+1), sum: sha256.New()}
	n, err := io.Copy(out, sum)
	switch {
	case err != nil:
		return err
	case n != f.Size:
		return fmt.Errorf("it has not the %d bytes that it should", f.Size)
	case f.SHA256 != "" && hex.EncodeToString(sum.sum.Sum(nil)) != f.SHA256:
		return errors.New("its content is not what it was: the SHA-256 differs")
	}
	return out.Sync()
}

// summed reads until its context ends.
type summed struct {
	ctx context.Context
	r   io.Reader
	sum hash.Hash
}

func (s *summed) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(b)
	s.sum.Write(b[:n])
	return n, err
}

// sandbox names what confines payloads.
func (s *Slurm) sandbox() string {
	if s.o.Bwrap != "" {
		return "bubblewrap"
	}
	return "slurm"
}
