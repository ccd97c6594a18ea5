package archivehttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/app/archive/custody"
	archivehttp "github.com/stagepost/stagepost/app/archive/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// slow is an archive whose files only a slow location has.
type slow struct{ archivehttp.Archive }

func (slow) Retrieve(_ context.Context, id job.ID, path string, _ int64) (*custody.Artifact, error) {
	return nil, job.Errorf(job.Unavailable, "retrieve", id, "%w", &copies.ReadError{
		Job: string(id), Path: path, Errs: []error{fmt.Errorf("tape: %w", copies.ErrRecalled)},
	})
}

// TestRecall: a file that is being recalled is answered with 202 and the time to ask again.
func TestRecall(t *testing.T) {
	w := servertest.Open(t, nil, nil, func(w *servertest.Harness) server.Part {
		return archivehttp.Part(w.Server, slow{})
	})
	_, _, err := w.Client.FetchArtifact(t.Context(), "arc_1", client.ArchiveArtifact{Path: "a/b.zip"}, 0)
	var recall *client.RecalledError
	if !errors.As(err, &recall) || recall.After != 60 || recall.Path != "a/b.zip" {
		t.Errorf("got %v", err)
	}
	answer, text := w.Ask(w.Request(http.MethodGet, "/api/v1/archive/archives/arc_1/content/a/b.zip", ""))
	if answer.StatusCode != http.StatusAccepted || answer.Header.Get("Retry-After") != "60" ||
		!strings.Contains(text, `"path":"a/b.zip"`) {
		t.Errorf("got %s %s", answer.Status, text)
	}
}

// TestUsersSeeTheirArchives: a list of a user has the archives of the user, whatever owner is asked for. The control is
// the operator, who sees all.
func TestUsersSeeTheirArchives(t *testing.T) {
	o := options(t)
	for id, owner := range map[string]string{"arc_1": "ann", "arc_2": "ben"} {
		if err := o.Catalog.Begin(t.Context(), catalog.Archive{
			Job: id, Source: "disk", Course: "maps", Owner: owner, Created: time.Now(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	app, err := archive.New(o)
	if err != nil {
		t.Fatal(err)
	}
	g := servertest.Guard(t, func(w *servertest.Harness) server.Part {
		return archivehttp.Part(w.Server, &application{App: app})
	})
	for _, c := range []struct {
		role  identity.Role
		query string
		want  string
	}{
		{identity.Depositor, "", "arc_1"}, {identity.Depositor, "?owner=ben", "arc_1"}, {identity.Operator, "", "arc_2 arc_1"},
		{identity.Operator, "?owner=ben", "arc_2"},
	} {
		_, text := g.Ask(g.With(g.Tokens[c.role], http.MethodGet, "/api/v1/archive/archives"+c.query, ""))
		var got []string
		for _, id := range []string{"arc_2", "arc_1"} {
			if strings.Contains(text, id) {
				got = append(got, id)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s%s: got %v, want %s", c.role, c.query, got, c.want)
		}
	}
}
