package archiveconfig

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/directory"
	"github.com/stagepost/stagepost/app/archive/source/moodle"
	"github.com/stagepost/stagepost/app/archive/source/web"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/internal/secretfile"
)

// source opens a source, unless it is open. A directory that another one has replaced, such as a file system that was
// mounted since, is opened again.
func (p *Pool) source(name string, s Source) (source.Source, error) {
	switch {
	case s.Moodle != nil:
		key := keyOf("source", name, s, s.Moodle.TokenFile, s.Moodle.PasswordFile)
		return opened(p, key, func() (source.Source, func() error, error) { return openMoodle(s.Moodle) })
	case s.Web != nil:
		info, err := os.Stat(s.Web.Lists)
		if err != nil {
			return nil, err
		}
		return opened(p, keyOf("source", name, []any{s, identity(info)}), func() (source.Source, func() error, error) {
			return openWeb(s.Web, filepath.Join(p.scratch, name), p.log)
		})
	}
	info, err := os.Stat(s.Directory.Path)
	if err != nil {
		return nil, err
	}
	return opened(p, keyOf("source", name, []any{s, identity(info)}), func() (source.Source, func() error, error) {
		one, err := directory.Open(s.Directory.Path)
		if err != nil {
			return nil, nil, err
		}
		return one, one.Close, nil
	})
}

func openMoodle(m *Moodle) (source.Source, func() error, error) {
	token, err := secretfile.Read(m.TokenFile)
	if err != nil {
		return nil, nil, err
	}
	o := moodle.Options{
		URL: m.URL, Token: token, Categories: m.Categories,
		HTTP: &http.Client{Timeout: cmp.Or(m.Timeout.Duration, time.Hour)},
	}
	if m.Account != "" {
		o.Login.User = m.Account
		if o.Login.Password, err = secretfile.Read(m.PasswordFile); err != nil {
			return nil, nil, err
		}
	}
	s, err := moodle.New(o)
	if err != nil {
		return nil, nil, err
	}
	return s, nil, nil
}

func openWeb(w *Web, scratch string, log *slog.Logger) (source.Source, func() error, error) {
	policy := fetch.Policy{MaxBytes: int64(w.MaxFile), Log: log}
	for _, text := range w.AllowNetworks {
		n, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, nil, err
		}
		policy.Allow = append(policy.Allow, n)
	}
	if err := durable.MkdirAll(scratch, 0o750); err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return nil, nil, err
	}
	client := fetch.New(policy)
	s, err := web.Open(web.Options{Lists: w.Lists, Fetch: client, Scratch: root, NeedDigests: w.NeedDigests})
	if err != nil {
		return nil, nil, errors.Join(err, root.Close())
	}
	return s, func() error {
		client.Close()
		return errors.Join(s.Close(), root.Close())
	}, nil
}
