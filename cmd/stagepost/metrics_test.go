package main

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
)

func metricsOf(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("got %s, %s, %v", answer.Status, text, err)
	}
	return string(text)
}

// TestMetricsOfAServer stores a file with the real parts and reads what every one of them counted.
func TestMetricsOfAServer(t *testing.T) {
	s := newSettings()
	s.Data, s.Listen, s.MetricsListen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	r, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(r.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	j, err := c.Submit(t.Context(), client.Submission{Type: "file", Filename: "a.txt", LocalIDs: []string{"a"}},
		strings.NewReader("twelve bytes"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(t.Context(), j.ID, 0, func(client.Update) error { return nil }); err != nil {
		t.Fatal(err)
	}
	route := `stagepost_http_request_duration_seconds_count{method="POST",route="/api/v1/ingest/submissions",status="201"} 1`
	text := metricsOf(t, r.MetricsURL)
	// a request is counted when its answer has gone out
	for end := time.Now().Add(30 * time.Second); !strings.Contains(text, route) && time.Now().Before(end); {
		text = metricsOf(t, r.MetricsURL)
	}
	for _, part := range []string{
		`stagepost_ingest_bytes_total{way="stored"} `, `stagepost_ingest_bytes_total{way="read-back"} `,
		"\nstagepost_commit_operations_count ",
		"\nstagepost_commit_queue 0", `stagepost_attempts_total{ending="passed",kind="ingest.job",state="Storing"} 1`,
		`stagepost_disk_free_bytes{place="data"}`, `stagepost_disk_free_bytes{place="storage"}`,
		`stagepost_jobs{group="` + j.Group + `",kind="ingest.job",stage="end",state="Completed"} 1`,
		route,
		`stagepost_build_info{go="go1.`, `stagepost_scrape_errors_total{source="outbox"} 0`,
		`stagepost_scrape_errors_total{source="disks"} 0`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%s is not there", part)
		}
	}
	if strings.Contains(text, "stagepost_commit_operations_count 0") {
		t.Error("the store counts no commits")
	}
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("got %v, %v", problems, err)
	}
	if answer, err := http.Get(r.URL + "/metrics"); err != nil || answer.StatusCode != http.StatusNotFound {
		t.Errorf("on the main address: %v, %v", answer, err)
	}
	own := r.MetricsURL
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(own); err == nil {
		t.Error("the metrics still answer")
	}
	s = newSettings() // by default they are on the main address
	s.Data, s.Listen, s.Store = t.TempDir(), "127.0.0.1:0", "mem"
	again, err := host.Start(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if text := metricsOf(t, again.URL+"/metrics"); !strings.Contains(text, "\nstagepost_slots ") {
		t.Errorf("got %s", text)
	}
	if err := again.Stop(); err != nil {
		t.Error(err)
	}
}
